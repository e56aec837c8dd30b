package memory

import (
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length                  uint32
	load                    uint32
	totalPhys, availPhys    uint64
	totalPage, availPage    uint64 // memory that can be committed
	totalVirtual, availVirt uint64
	availExtended           uint64
}

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// free returns the available physical memory, or the memory that can still be
// committed if that is less.
func free() (int64, bool) {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if globalMemoryStatusEx.Find() != nil {
		return 0, false
	}
	if done, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); done == 0 {
		return 0, false
	}
	return int64(min(s.availPhys, s.availPage, math.MaxInt64)), true
}
