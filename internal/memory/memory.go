// Package memory finds out how much memory a process can still allocate before
// the machine, or its container, runs out.
package memory

// Free returns the number of bytes that this process can still allocate: the
// available memory without swap, or the room that its containers (control groups)
// have below their limits, if that is less. Page cache that the system would
// reclaim counts as free. ok is false if the system does not report the figure.
func Free() (bytes int64, ok bool) { return free() }
