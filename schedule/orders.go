package schedule

import "slices"

// orders returns up to five different orders of the smallest peak, the one found
// first. They differ in what placement makes of them: of equal peak, their
// arenas differ by up to 4 %, and neither the area of the load nor the distance
// from program order says which is the smallest. So they are for the caller to
// place. Each costs a walk, O(E log V).
func (s *search) orders(g *net, found, program []int32) [][]int32 {
	s.loads = g.loads(found, s.loads)
	peak, _ := peakOf(s.loads)
	all := [][]int32{found}
	add := func(order []int32) {
		s.loads = g.loads(order, s.loads)
		if p, _ := peakOf(s.loads); p > peak {
			return
		}
		if !slices.ContainsFunc(all, func(o []int32) bool { return slices.Equal(o, order) }) {
			all = append(all, order)
		}
	}
	add(s.settle(g, program, peak, byPlace))
	add(s.settle(g, program, peak, byDelta))
	back := s.settleBack(g, found, peak, byPlace)
	add(back)
	add(s.settle(g, back, peak, byPlace))
	return all
}
