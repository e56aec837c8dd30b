package vm

// ReplayUse says how the tensors that the plan leaves out were placed.
type ReplayUse struct {
	ArenaBytes int64 // one arena for them; 0: none yet, or it would not be smaller
	LowerBound int64 // bytes: proven, no arena for the recorded blocks is smaller
	Hits       int   // blocks with a place in the arena, in all runs
	Misses     int   // blocks without one, in runs that had an arena
	Plans      int   // arenas made
}
