// Package memory asks the system about memory: how much a process can still allocate
// before the machine, or its container, runs out, and how much this process takes.
package memory

// Free returns the number of bytes that this process can still allocate: the
// available memory without swap, or the room that its containers (control groups)
// have below their limits, if that is less. Page cache that the system would
// reclaim counts as free. ok is false if the system does not report the figure.
func Free() (bytes int64, ok bool) { return free() }

// Use is the physical memory of this process, in bytes. A figure that the system does
// not report is 0.
type Use struct {
	// Peak is the most that was resident at one time since the process began, pages of
	// mapped files included: VmHWM on Linux, ru_maxrss on macOS and the BSDs,
	// PeakWorkingSetSize on Windows.
	Peak int64
	// Resident is what is resident now.
	Resident int64
	// Program is the part of Resident that lies in the pages of the program's own file,
	// and Files the part in pages of other mapped files (Linux). The system can take
	// those back that were not written to.
	Program, Files int64
}

// Process returns the memory of this process. On Linux it walks the page tables of all
// mappings, which takes about a millisecond for each 200 MiB.
func Process() Use { return process() }
