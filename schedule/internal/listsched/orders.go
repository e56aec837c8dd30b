package listsched

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Rule says which of the nodes that may run is taken first, where none is safe.
type Rule int8

const (
	ByPlace Rule = iota // the first in the order to follow
	ByRise              // the one that raises the live bytes least; ties by place
	ByReady             // the one that became ready last; ties to the last in place
)

// ByReady goes down into what it has opened before it opens more. Where many
// nodes raise the live bytes by little and a few of them lead to a fall, as the
// slices of a gradient at the end of an unrolled recurrent network do, both
// other Rules run all of them before any of what they lead to.

// Rules are those that the exact search tries in turn.
var Rules = [...]Rule{ByPlace, ByRise, ByReady}

// key returns what a node is ranked by, least first, and its place among equals.
func (r Rule) Key(delta int64, ready, place int32) (int64, int32) {
	switch r {
	case ByRise:
		return delta, place
	case ByReady:
		return -int64(ready), -place
	}
	return 0, place
}

// ByGoals sorts the nodes of an order by their goals, those of one goal as they
// stood. The goals are the steps of the order after which less is live than
// before; that of a node is the first that it is or comes before. On layers of a
// random network, whose outputs are added up by the hundred, this takes 12 % off
// the peak. O(E + V log V).
func ByGoals(g *indexed.Problem, order []int32) []int32 {
	none := int32(g.Nodes)
	goal := make([]int32, g.Nodes)
	for v := range goal {
		goal[v] = none
	}
	unread := g.Unread(nil)
	live := g.LiveFirst()
	var stack []int32
	for k, v := range order {
		before := live
		if live = g.LiveAfter(v, live, unread); live >= before || goal[v] != none {
			continue
		}
		goal[v] = int32(k)
		for stack = append(stack[:0], v); len(stack) > 0; {
			u := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, w := range g.Preds.Of(u) {
				if goal[w] == none {
					goal[w] = int32(k)
					stack = append(stack, w)
				}
			}
		}
	}
	sorted := slices.Clone(order)
	slices.SortStableFunc(sorted, func(a, b int32) int { return cmp.Compare(goal[a], goal[b]) })
	return sorted
}

// orders returns up to five different orders of the smallest peak: program order
// first, if it is one, then by area, the first of equal ones. They differ in what
// placement makes of them: of equal peak, their arenas differ by up to 4 %, and
// neither the area nor the distance from program order says which is the
// smallest. So they are for the caller to place. Each costs a walk, O(E log V).
func (s *Scheduler) Alternatives(g *indexed.Problem, found, program []int32) [][]int32 {
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
			all = append(all, candidate{order, Area(s.loads)})
		}
	}
	add(found)
	add(s.Forward(g, program, peak, ByPlace))
	add(s.Forward(g, program, peak, ByRise))
	back := s.Backward(g, found, peak, ByPlace)
	add(back)
	add(s.Forward(g, back, peak, ByPlace))
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

// maxFlatten is how often flatter follows an order to one of less area.
const maxFlatten = 12

// flatter returns up to five orders that keep a peak, the least area first, the
// first of equal ones: from each of the given orders it settles by least rise,
// forward and from the end by turns, as long as that lowers the area. Walks that
// exceed the peak are left. No walk is a proof: the least area under a limit on
// the peak is NP-hard already for loads that only grow. O(E log V) for each walk.
func (s *Scheduler) LessArea(g *indexed.Problem, orders [][]int32) [][]int32 {
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
		area = Area(s.loads)
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
			if s.meter.Stop() != meter.Continue {
				break
			}
			back := s.Backward(g, order, peak, ByRise)
			if a, ok := add(back, peak); ok && a < area {
				order, area = back, a
			}
			next := s.Forward(g, back, peak, ByRise)
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

// Area is the sum of loads, at most math.MaxInt64.
func Area(loads []int64) (area int64) {
	for _, l := range loads {
		if area > math.MaxInt64-l {
			return math.MaxInt64
		}
		area += l
	}
	return area
}
