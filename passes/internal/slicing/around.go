package slicing

// Around returns regions that are grown from a node in one window, along each axis of its first
// output and in each number of slices that is possible, at most that many.
func (s *Search) Around(start, end, seed, most int) (list []*Pick) {
	n := s.g.Nodes[seed]
	if len(n.Outputs) == 0 || n.Outputs[0] < 0 {
		return nil
	}
	across := s.over(start)
	for v := start; v <= end; v++ {
		across -= s.dies(start, v)
	}
	for axis, d := range s.shape(n.Outputs[0]) {
		if d < 2 {
			continue
		}
		r := s.Find(start, end, seed, axis)
		if r == nil {
			continue
		}
		c := s.candidate(r)
		for x, k := range Counts {
			if k <= most && c.measured(x).possible {
				list = append(list, (&place{c, s, start, across}).pick(c.at(x)))
			}
		}
	}
	return list
}
