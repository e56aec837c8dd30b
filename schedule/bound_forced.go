package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// forced says which nodes run before v in every order of a peak within the
// limit, and which after it. It returns ok = false if there is no such order.
// Nodes in ancestry with v, of which that is known, are not among them.
//
// Let L be the least load of v for a choice M of its savings (see CutBound). If
// L is within the limit, limit - L is what a state before v may cost more. If to
// force x into that state costs more than this, x runs after v in every order
// that takes M; if to force it out does, x runs before v. What all choices with
// L within the limit force is forced. Only two kinds of x need a test: outside
// the largest minimiser, forced in; inside the smallest, forced out; all others
// cost nothing either way. A test adds one infinite edge to the network, with
// its maximum flow, and augments.
//
// Precedence found for a limit is void for larger ones.
func (c *cutter) forced(g *indexed.Problem, v int32, limit, work int64) (earlier, later []int32, ok bool) {
	c.begin(g)
	c.around(v)
	choices, more := g.Choices(v)
	for _, choice := range choices {
		least := c.least(v, choice, indexed.Infinite) + g.Transient[v] - indexed.Total(choice) - more
		if least > limit {
			continue
		}
		first := !ok
		ok = true
		if !first && len(earlier)+len(later) == 0 {
			break
		}
		in, out := c.forcedBy(limit-least, work)
		if first {
			earlier, later = in, out
			continue
		}
		earlier = both(earlier, in)
		later = both(later, out)
	}
	return earlier, later, ok
}

// both keeps what stands in both ascending lists.
func both(a, b []int32) []int32 {
	return slices.DeleteFunc(a, func(x int32) bool {
		_, found := slices.BinarySearch(b, x)
		return !found
	})
}

// maxTests bounds the tests of one cut.
const maxTests = 3000

// forcedBy tests the last cut against what it may cost more. It ends early, with
// what it found so far, when the work of all flows reaches a limit.
func (c *cutter) forcedBy(slack, work int64) (earlier, later []int32) {
	small, large := make([]bool, c.g.Nodes), make([]bool, c.g.Nodes)
	c.minimiser(false, small)
	c.minimiser(true, large)
	saved := slices.Clone(c.Left)
	tests := 0
	for _, x := range c.free {
		from, to := source, c.vertex[x] // in
		switch {
		case small[x]:
			from, to = to, sink // out
		case large[x]:
			continue
		}
		if tests++; tests > maxTests || c.Work > work || c.Broken {
			break
		}
		c.Edge(from, to, indexed.Infinite)
		cost := c.Augment(slack + 1)
		c.DropEdge(from, to)
		copy(c.Left, saved)
		if cost <= slack {
			continue
		}
		if small[x] {
			earlier = append(earlier, x)
		} else {
			later = append(later, x)
		}
	}
	return earlier, later
}
