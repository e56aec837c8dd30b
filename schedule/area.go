package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Goal says which of the orders of the smallest peak [Solve] prefers.
type Goal int

const (
	// GoalPeak asks for nothing more: program order first if it is among them,
	// then the order that was found.
	GoalPeak Goal = iota
	// GoalArea asks for a small area, and looks for orders of less.
	GoalArea
)

// Area is the sum of the loads of all steps in bytes: what an order holds, and
// for how long. It is at most math.MaxInt64.
func (e Evaluation) Area() int64 { return areaOf(e.Loads) }

func areaOf(loads []int64) (area int64) {
	for _, l := range loads {
		if area > math.MaxInt64-l {
			return math.MaxInt64
		}
		area += l
	}
	return area
}

// maxFlatten is how often flatter follows an order to one of less area.
const maxFlatten = 12

// flatter returns up to five orders that keep a peak, the least area first, the
// first of equal ones: from each of the given orders it settles by least rise,
// forward and from the end by turns, as long as that lowers the area. Walks that
// exceed the peak are left. No walk is a proof: the least area under a limit on
// the peak is NP-hard already for loads that only grow. O(E log V) for each walk.
func (s *search) flatter(g *indexed.Problem, orders [][]int32) [][]int32 {
	type flat struct {
		order []int32
		area  int64
	}
	var found []flat
	add := func(order []int32, peak int64) (area int64, ok bool) {
		s.loads = g.Loads(order, s.loads)
		if p, _ := indexed.Peak(s.loads); p > peak {
			return 0, false
		}
		area = areaOf(s.loads)
		if !slices.ContainsFunc(found, func(f flat) bool { return f.area == area && slices.Equal(f.order, order) }) {
			found = append(found, flat{order, area})
		}
		return area, true
	}
	s.loads = g.Loads(orders[0], s.loads)
	peak, _ := indexed.Peak(s.loads)
	for _, order := range orders {
		area, _ := add(order, peak)
		for range maxFlatten {
			if s.stop() {
				break
			}
			back := s.settleBack(g, order, peak, byDelta)
			if a, ok := add(back, peak); ok && a < area {
				order, area = back, a
			}
			next := s.settle(g, back, peak, byDelta)
			a, ok := add(next, peak)
			if !ok || a >= area {
				break
			}
			order, area = next, a
		}
	}
	slices.SortStableFunc(found, func(a, b flat) int { return cmp.Compare(a.area, b.area) })
	var kept [][]int32
	for _, f := range found[:min(len(found), 5)] {
		kept = append(kept, f.order)
	}
	return kept
}
