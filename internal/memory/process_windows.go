package memory

import (
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryCounters is PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	length, faults                uint32
	peakWorkingSet, workingSet    uintptr
	peakPagedPool, pagedPool      uintptr
	peakNonPagedPool, nonPaged    uintptr
	pagefileUsage, peakPagefileUs uintptr
}

var getProcessMemoryInfo = windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")

// process returns the working set, which contains the pages of mapped files that the
// process has touched and the system has not trimmed.
func process() Use {
	c := memoryCounters{length: uint32(unsafe.Sizeof(memoryCounters{}))}
	if getProcessMemoryInfo.Find() != nil {
		return Use{}
	}
	if done, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.length)); done == 0 {
		return Use{}
	}
	return Use{Peak: int64(min(uint64(c.peakWorkingSet), math.MaxInt64)), Resident: int64(min(uint64(c.workingSet), math.MaxInt64))}
}
