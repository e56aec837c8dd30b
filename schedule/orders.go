package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// orders returns up to five different orders of the smallest peak: program order
// first, if it is one, then by area, the first of equal ones. They differ in what
// placement makes of them: of equal peak, their arenas differ by up to 4 %, and
// neither the area nor the distance from program order says which is the
// smallest. So they are for the caller to place. Each costs a walk, O(E log V).
func (s *search) orders(g *indexed.Problem, found, program []int32) [][]int32 {
	s.loads = g.Loads(found, s.loads)
	peak, _ := indexed.Peak(s.loads)
	type candidate struct {
		order []int32
		area  int64
	}
	var all []candidate
	add := func(order []int32) {
		s.loads = g.Loads(order, s.loads)
		if p, _ := indexed.Peak(s.loads); p > peak {
			return
		}
		if !slices.ContainsFunc(all, func(c candidate) bool { return slices.Equal(c.order, order) }) {
			all = append(all, candidate{order, areaOf(s.loads)})
		}
	}
	add(found)
	add(s.settle(g, program, peak, byPlace))
	add(s.settle(g, program, peak, byDelta))
	back := s.settleBack(g, found, peak, byPlace)
	add(back)
	add(s.settle(g, back, peak, byPlace))
	moved := all
	if slices.Equal(found, program) {
		moved = all[1:]
	}
	slices.SortStableFunc(moved, func(a, b candidate) int { return cmp.Compare(a.area, b.area) })
	orders := make([][]int32, len(all))
	for i, c := range all {
		orders[i] = c.order
	}
	return orders
}
