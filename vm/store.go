package vm

// store is what a session allocates outside of the program's constants, but for scratch.
type store struct {
	*share // counts it

	arena, resident    *block
	host               *block   // the host pool; nil: there is none
	own                []*block // of Options.Separate
	side               sidePool // dynamic tensors
	guard              *guard   // of Options.Guard
	heap               int64    // bytes of Go's heap, as estimated
	tables, sideTables int64    // bytes of lists that kernels keep; of those in the side pool
}

// beginSide begins a run of the side pool. Values that the last run left and that no later step
// reads are dropped.
func (s *Session) beginSide() error {
	if s.mem.side.any() {
		for _, f := range s.frames {
			for _, t := range f.tensors {
				if t != nil && s.mem.side.lasts(t.block) {
					s.release(t)
				}
			}
		}
	}
	return s.mem.side.begin()
}

// resetSide frees the blocks that a failed run left in use. No tensor has one afterwards.
func (s *Session) resetSide() {
	for _, f := range s.frames {
		for _, t := range f.tensors {
			if t != nil && t.block != nil {
				s.mem.side.give(t.block)
				t.block = nil
			}
		}
	}
	s.mem.side.reset()
}
