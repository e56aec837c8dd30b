//go:build windows && !nocuda && (amd64 || arm64)

package driver

import (
	"errors"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/windows"
)

const howToGet = "it comes with the driver of the machine's NVIDIA GPU (https://www.nvidia.com/drivers)"

var driverNames = []string{"nvcuda.dll"}

func open(path string) (uintptr, error) {
	h, err := windows.LoadLibrary(path)
	return uintptr(h), err
}

// absent reports whether the error of open says that there is no such file.
func absent(err error) bool { return errors.Is(err, windows.ERROR_MOD_NOT_FOUND) }

func symbol(library uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(library), name)
}

// call calls a C function that returns a status.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) Status {
	r, _, _ := purego.SyscallN(fn, args...)
	return Status(int32(r))
}
