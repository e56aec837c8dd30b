package exec

// beginSide begins a run of the side pool. Values that the last run left and that no later step
// reads are dropped.
func (s *Session) beginSide() error {
	if s.Mem.Side.Any() {
		for _, f := range s.Frames {
			for _, t := range f.Tensors {
				if t != nil && s.Mem.Side.Lasts(t.Block) {
					s.Release(t)
				}
			}
		}
	}
	return s.Mem.Side.Begin()
}

// resetSide frees the blocks that a failed run left in use. No tensor has one afterwards.
func (s *Session) resetSide() {
	for _, f := range s.Frames {
		for _, t := range f.Tensors {
			if t != nil && t.Block != nil {
				s.Mem.Side.Give(t.Block)
				t.Block = nil
			}
		}
	}
	s.Mem.Side.Reset()
}

// unboxAll drops the boxes of a failed run, whose blocks the side pool has freed.
func (s *Session) unboxAll() {
	for _, f := range s.Frames {
		for _, t := range f.Tensors {
			if t != nil {
				t.Box = nil
			}
		}
	}
	s.ForgetBoxes()
}
