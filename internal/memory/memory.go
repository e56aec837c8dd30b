// Package memory finds out how much memory a process can still allocate before
// the machine, or its container, runs out.
package memory

// Free is the number of bytes that this process can still allocate: the available
// memory, without swap, limited by what its containers (control groups) leave of
// their limits. Page cache that the system would release counts as free. ok is
// false if the system does not tell.
func Free() (bytes int64, ok bool) { return free() }
