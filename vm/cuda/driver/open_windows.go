//go:build windows && !nocuda && (amd64 || arm64)

package driver

import (
	"github.com/ebitengine/purego"
	"golang.org/x/sys/windows"
)

var driverNames = []string{"nvcuda.dll"}

func open(path string) (uintptr, error) {
	h, err := windows.LoadLibrary(path)
	return uintptr(h), err
}

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
