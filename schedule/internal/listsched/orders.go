package listsched

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Rule says which candidate is placed if none is safe.
type Rule int8

const (
	ByPlace Rule = iota // the first in the order to follow
	ByRise              // the one that raises the live bytes least; ties by place
	ByReady             // the one that became ready last; ties to the last in place
)

// ByReady finishes what it has opened before it opens more. At the end of an unrolled
// recurrent network many slices of a gradient raise the live bytes a little, and only a
// few of them lead to a fall: the other two rules run all slices first.

// Rules lists all rules, in the sequence in which the exact search tries them.
var Rules = [...]Rule{ByPlace, ByRise, ByReady}

// Key returns by what a node is ranked, least first, and its place among equals.
func (r Rule) Key(delta int64, ready, place int32) (int64, int32) {
	switch r {
	case ByRise:
		return delta, place
	case ByReady:
		return -int64(ready), -place
	}
	return 0, place
}

// ByGoals reorders an order so that all ancestors of the next step that frees memory run
// first. A goal is a step after which fewer bytes are live than before; the goal of a
// node is the first one that is the node itself or a descendant. Nodes of one goal keep
// their sequence. On layers of a random network, which adds up outputs by the hundred,
// this takes 12 % off the peak. O(E + V log V).
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

// Alternatives returns up to five different orders whose peak is at most that of the
// order found: program order first, if it is one of them, then by area. Of equal peak,
// their arenas differ by up to 4 %, and neither the area nor the distance from program
// order predicts which arena is the smallest. So the caller places them all. O(E log V)
// for each.
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

// maxFlatten is how often LessArea goes from an order to one of less area.
const maxFlatten = 12

// LessArea returns up to five orders that keep the peak of the given ones, the least
// area first. From each given order it schedules by least rise, backward and forward by
// turns, as long as that lowers the area, and drops orders that exceed the peak. The
// least area is not proven: under a limit on the peak it is NP-hard to find, even for
// loads that only grow. O(E log V) for each order.
func (s *Scheduler) LessArea(g *indexed.Problem, orders [][]int32) [][]int32 {
	type measured struct {
		order []int32
		area  int64
	}
	var found []measured
	add := func(order []int32, peak int64) (area int64, ok bool) {
		s.loads = g.Loads(order, s.loads)
		if p, _ := indexed.Peak(s.loads); p > peak {
			return 0, false
		}
		area = Area(s.loads)
		if !slices.ContainsFunc(found, func(f measured) bool { return f.area == area && slices.Equal(f.order, order) }) {
			found = append(found, measured{order, area})
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
	slices.SortStableFunc(found, func(a, b measured) int { return cmp.Compare(a.area, b.area) })
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
