package cu

import "github.com/onnxmem/onnxmem/vm/cuda/driver"

// DevicePtr is an address in a device's memory.
type DevicePtr uintptr

// Uintptr is the address.
func (p DevicePtr) Uintptr() uintptr { return uintptr(p) }

// MemSize is not known.
func (p DevicePtr) MemSize() uintptr { return 0 }

// MemAttachFlags say who may use managed memory.
type MemAttachFlags uint

// AttachGlobal lets every stream use it.
const AttachGlobal MemAttachFlags = 1

// OutOfMemory is what gorgonia compares the error of MakeContext with.
var OutOfMemory = driver.ErrOutOfMemory

// MemAllocManaged returns the null address. An engine sets memory aside with it for the
// outputs that a program leaves to gorgonia; see the package comment.
func MemAllocManaged(int64, MemAttachFlags) (DevicePtr, error) { return 0, nil }

// MemFree frees what MemAllocManaged returned: nothing.
func MemFree(DevicePtr) error { return nil }

// MemInfo returns the bytes of device memory that are free, and all of them. It calls a
// page free at least: gorgonia refuses to start where fewer are than an engine would set
// aside, although none are.
func MemInfo() (free, total int64, err error) {
	const page = 4096
	free, total, err = driver.MemInfo()
	return max(free, page), total, err
}
