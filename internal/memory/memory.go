// Package memory tells how much memory a process can still take before the
// machine, or the container that it runs in, runs out.
package memory

// Free is the bytes that this process can still take: what the system says is
// available, without swap, and no more than its containers (control groups)
// leave of their limits. Page cache that the system would give up counts as
// free. ok is false where the system does not tell.
func Free() (bytes int64, ok bool) { return free() }
