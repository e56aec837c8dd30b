package driver

import (
	"fmt"
	"unsafe"
)

// LoadModule loads a cubin or PTX into the current context. PTX must end with a zero
// byte.
func LoadModule(image []byte) (Module, error) {
	var m Module
	err := check("cuModuleLoadData", call(entries.ModuleLoadData, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(unsafe.SliceData(image)))))
	return m, err
}

// Unload removes a module.
func (m Module) Unload() error {
	return check("cuModuleUnload", call(entries.ModuleUnload, uintptr(m)))
}

// Function returns a kernel by name.
func (m Module) Function(name string) (Function, error) {
	var f Function
	err := check("cuModuleGetFunction "+name, call(entries.ModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(cString(name)))))
	return f, err
}

// AllowShared lets launches of a kernel use up to the given bytes of dynamic shared
// memory, where that is more than 48 KiB.
func (f Function) AllowShared(bytes int) error {
	const maxDynamicShared = 8
	return check("cuFuncSetAttribute", call(entries.FuncSetAttribute, uintptr(f), maxDynamicShared, uintptr(bytes)))
}

// CheckParams fails unless the kernel's parameters have the given sizes in bytes.
// Drivers before CUDA 12.4 cannot tell: then it does nothing.
func (f Function) CheckParams(sizes []int) error {
	if optional.FuncGetParamInfo == 0 {
		return nil
	}
	for i := 0; ; i++ {
		var off, size uintptr
		s := call(optional.FuncGetParamInfo, uintptr(f), uintptr(i), uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&size)))
		switch {
		case s == statusInvalidValue && i == len(sizes):
			return nil
		case s == statusInvalidValue:
			return fmt.Errorf("has %d parameters, expected %d", i, len(sizes))
		case s != 0:
			return check("cuFuncGetParamInfo", s)
		case i >= len(sizes):
			return fmt.Errorf("has more than the expected %d parameters", len(sizes))
		case int(size) != sizes[i]:
			return fmt.Errorf("parameter %d has %d bytes, expected %d", i, size, sizes[i])
		}
	}
}

// Dim3 is the size of a grid in blocks, or of a block in threads.
type Dim3 struct{ X, Y, Z uint32 }

// Launch is a kernel with everything that a launch needs. A prepared launch costs no
// allocation. The array of the arguments' addresses must lie outside of Go's heap.
type Launch struct{ args [11]uintptr }

// PrepareLaunch returns the launch of a kernel over a grid of blocks with the given
// bytes of dynamic shared memory. params is the array of the arguments' addresses.
func PrepareLaunch(f Function, grid, block Dim3, shared int, params unsafe.Pointer) Launch {
	return Launch{[11]uintptr{
		uintptr(f), uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z),
		uintptr(block.X), uintptr(block.Y), uintptr(block.Z), uintptr(shared), 0, uintptr(params), 0,
	}}
}

// SetBlocks changes the number of blocks along x.
func (l *Launch) SetBlocks(x int) { l.args[1] = uintptr(x) }

// Run puts the kernel on a stream.
func (l *Launch) Run(s Stream) error {
	l.args[8] = uintptr(s)
	if r := call(entries.LaunchKernel, l.args[:]...); r != 0 {
		return check("cuLaunchKernel", r)
	}
	return nil
}
