//go:build (linux || darwin) && !nocuda && (amd64 || arm64)

package solvers

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

const opensLibraries = true

// library is an open library.
type library struct {
	handle uintptr
	path   string
}

// openLibrary opens a library with its names local: several solvers have parts of one name.
func openLibrary(path string) (*library, error) {
	// The loader keeps the message of an error for the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	return &library{h, path}, nil
}

// absent reports whether the error of openLibrary says that there is no such file.
func absent(err error) bool {
	return strings.Contains(err.Error(), "No such file") || strings.Contains(err.Error(), "no such file")
}

// bind sets each function to that of a name.
func (l *library) bind(functions map[string]any) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, f := range functions {
		p, err := purego.Dlsym(l.handle, name)
		if err != nil {
			return fmt.Errorf("%s: it lacks %s", l.path, name)
		}
		purego.RegisterFunc(f, p)
	}
	return nil
}

// callback returns the address of a function for C. There is room for a few thousand in a
// process, and none is ever freed.
func callback(f any) uintptr { return purego.NewCallback(f) }
