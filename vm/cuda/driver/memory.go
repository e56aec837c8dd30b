package driver

import "unsafe"

// MemInfo returns the bytes that are free on the device, and that it has in all.
func MemInfo() (free, total int64, err error) {
	err = check("cuMemGetInfo", call(entries.MemGetInfo_v2, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total))))
	return free, total, err
}

// Alloc allocates device memory. Its address is a multiple of 256.
func Alloc(bytes int64) (Ptr, error) {
	var p Ptr
	err := check("cuMemAlloc", call(entries.MemAlloc_v2, uintptr(unsafe.Pointer(&p)), uintptr(bytes)))
	return p, err
}

// Free frees device memory.
func Free(p Ptr) error { return check("cuMemFree", call(entries.MemFree_v2, uintptr(p))) }

// AllocHost allocates host memory that the device can copy from and to by itself.
func AllocHost(bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := check("cuMemAllocHost", call(entries.MemAllocHost_v2, uintptr(unsafe.Pointer(&p)), uintptr(bytes)))
	return p, err
}

// FreeHost frees memory of AllocHost.
func FreeHost(p unsafe.Pointer) error {
	return check("cuMemFreeHost", call(entries.MemFreeHost, uintptr(p)))
}

// Upload copies bytes to the device. The source must keep its bytes until the stream
// has been synchronized.
func Upload(to Ptr, from unsafe.Pointer, bytes int64, s Stream) error {
	return check("cuMemcpyHtoDAsync", call(entries.MemcpyHtoDAsync_v2, uintptr(to), uintptr(from), uintptr(bytes), uintptr(s)))
}

// Download copies bytes from the device. They are there once the stream has been
// synchronized.
func Download(to unsafe.Pointer, from Ptr, bytes int64, s Stream) error {
	return check("cuMemcpyDtoHAsync", call(entries.MemcpyDtoHAsync_v2, uintptr(to), uintptr(from), uintptr(bytes), uintptr(s)))
}

// Copy copies bytes within the device's memory.
func Copy(to, from Ptr, bytes int64, s Stream) error {
	return check("cuMemcpyDtoDAsync", call(entries.MemcpyDtoDAsync_v2, uintptr(to), uintptr(from), uintptr(bytes), uintptr(s)))
}

// UploadNow is Upload that returns after the copy. cuMemcpyHtoD itself may return when the
// bytes have left pageable memory; later work on other streams would not wait for the rest.
func UploadNow(to Ptr, from unsafe.Pointer, bytes int64) error {
	if err := check("cuMemcpyHtoD", call(entries.MemcpyHtoD_v2, uintptr(to), uintptr(from), uintptr(bytes))); err != nil {
		return err
	}
	return Stream(0).Synchronize()
}

// DownloadNow is Download that returns after the copy.
func DownloadNow(to unsafe.Pointer, from Ptr, bytes int64) error {
	return check("cuMemcpyDtoH", call(entries.MemcpyDtoH_v2, uintptr(to), uintptr(from), uintptr(bytes)))
}

// Fill8 sets n bytes.
func Fill8(at Ptr, value byte, n int64, s Stream) error {
	return check("cuMemsetD8Async", call(entries.MemsetD8Async, uintptr(at), uintptr(value), uintptr(n), uintptr(s)))
}

// Fill32 sets n words of four bytes.
func Fill32(at Ptr, value uint32, n int64, s Stream) error {
	return check("cuMemsetD32Async", call(entries.MemsetD32Async, uintptr(at), uintptr(value), uintptr(n), uintptr(s)))
}
