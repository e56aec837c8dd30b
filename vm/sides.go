package vm

// beginSide begins a run of the side pool. Values that the last run left and that no later step
// reads are dropped.
func (s *Session) beginSide() error {
	if s.mem.Side.Any() {
		for _, f := range s.frames {
			for _, t := range f.tensors {
				if t != nil && s.mem.Side.Lasts(t.block) {
					s.release(t)
				}
			}
		}
	}
	return s.mem.Side.Begin()
}

// resetSide frees the blocks that a failed run left in use. No tensor has one afterwards.
func (s *Session) resetSide() {
	for _, f := range s.frames {
		for _, t := range f.tensors {
			if t != nil && t.block != nil {
				s.mem.Side.Give(t.block)
				t.block = nil
			}
		}
	}
	s.mem.Side.Reset()
}
