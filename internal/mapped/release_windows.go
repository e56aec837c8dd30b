package mapped

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// release takes whole pages of a mapping out of the process's working set: so VirtualUnlock
// does with pages that were not locked, and then reports that they were not.
func release(pages []byte) {
	_ = windows.VirtualUnlock(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)))
}
