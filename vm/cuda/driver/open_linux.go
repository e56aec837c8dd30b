//go:build linux && !nocuda && (amd64 || arm64)

package driver

import (
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

const howToGet = "it comes with the driver of the machine's NVIDIA GPU (on Ubuntu `sudo ubuntu-drivers install` gets it; a container needs `docker run --gpus all`)"

// driverNames are the places of libcuda. WSL's is not on the loader's path.
var driverNames = []string{"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}

func open(path string) (uintptr, error) {
	// The loader keeps the message of an error for the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// absent reports whether the error of open says that there is no such file.
func absent(err error) bool { return strings.Contains(err.Error(), "No such file") }

func symbol(library uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(library, name)
}

// call calls a C function that returns a status.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) Status {
	r, _, _ := purego.SyscallN(fn, args...)
	return Status(int32(r))
}
