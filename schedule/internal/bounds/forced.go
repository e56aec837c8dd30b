package bounds

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Forced returns the nodes that run before v in every order whose peak is within the
// limit, and those that run after it; ok is false if there is no such order. Nodes
// that precedence orders with v are left out. Work is the reading of the meter's flow
// at which the tests end.
//
// Lemma. Let L be the least load of v for a choice M of its savings, and L <= limit.
// If the least load with x forced into the state before v exceeds the limit, x runs
// after v in every order within the limit that takes M; if it does with x forced out,
// x runs before v.
//
// Proof. Otherwise the state before v would be one of those that the cut minimises
// over, and the load of v would exceed the limit.
//
// What all choices with L <= limit force is forced. Only two kinds of x need a test: those
// outside the largest minimiser, which the test forces in, and those inside the smallest,
// which it forces out. Any other x is inside one minimiser and outside another, so forcing
// it either way leaves the least load as it is. A test adds one infinite edge to the network with its maximum flow and
// augments the flow.
//
// Precedence forced by a limit need not hold within a larger limit.
func (c *Cutter) Forced(g *indexed.Problem, v int32, limit, work int64) (earlier, later []int32, ok bool) {
	c.Begin(g)
	c.around(v)
	choices, more := g.Choices(v)
	for _, choice := range choices {
		least := c.least(v, choice, infinite) + g.Transient[v] - indexed.Total(choice) - more
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

// forcedBy tests which nodes the last cut cannot move within the slack. When the work
// is done it returns what it has found so far.
func (c *Cutter) forcedBy(slack, work int64) (earlier, later []int32) {
	small, large := make([]bool, c.g.Nodes), make([]bool, c.g.Nodes)
	c.Minimiser(false, small)
	c.Minimiser(true, large)
	saved := slices.Clone(c.flow.Left)
	tests := 0
	for _, x := range c.free {
		from, to := source, c.vertex[x] // in
		switch {
		case small[x]:
			from, to = to, sink // out
		case large[x]:
			continue
		}
		if tests++; tests > maxTests || c.meter.Flow > work || c.Broken() {
			break
		}
		c.flow.Edge(from, to, infinite)
		cost := c.augment(slack + 1)
		c.flow.DropEdge(from, to)
		copy(c.flow.Left, saved)
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
