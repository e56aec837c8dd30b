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
// Lemma. Let L be the least load of v for a choice M of its savings, and L <= limit. If the
// least load with x forced into the state before v exceeds the limit, x runs after v in every
// order within the limit that takes M. If it does with x forced out, x runs before v.
//
// Proof. Otherwise the state before v would be one of those that the cut minimises
// over, and the load of v would exceed the limit.
//
// What all choices with L <= limit force is forced. A node x needs no test if some order
// seen runs v within the limit from a state on whose side x is. Of the others only two
// kinds need one: those outside the largest minimiser, which the test forces in, and those
// inside the smallest, which it forces out. Any other x is inside one minimiser and outside
// another, so forcing it either way leaves the least load as it is.
//
// The lists leave out what follows from them: a node with an ancestor that runs after v,
// or with a descendant that runs before v. Precedence forced by a limit need not hold
// within a larger limit.
func (c *Cutter) Forced(g *indexed.Problem, v int32, limit, work int64, seen []Placed) (earlier, later []int32, ok bool) {
	c.Begin(g)
	c.around(v)
	f := &c.forced
	f.in, f.out = indexed.Zeroed(f.in, g.Nodes), indexed.Zeroed(f.out, g.Nodes)
	witness := false
	for _, x := range seen {
		if x.Load[v] > limit {
			continue
		}
		witness = true
		for u, at := range x.Place {
			if at < x.Place[v] {
				f.in[u] = moves
			} else {
				f.out[u] = moves
			}
		}
	}
	if witness && !c.mayForce() {
		return nil, nil, true
	}
	choices, more := g.Choices(v)
	for _, choice := range choices {
		least := c.least(v, choice, infinite) + g.Transient[v] - indexed.Total(choice) - more
		if least > limit {
			continue
		}
		ok = true
		if !c.forcedBy(limit-least, work) {
			return nil, nil, true
		}
	}
	if !ok {
		return nil, nil, false
	}
	for i, m := range c.Marks {
		u := int32(i)
		if m != Free {
			continue
		}
		if f.out[u] == stays && !slices.ContainsFunc(g.Succs.Of(u), func(w int32) bool { return f.out[w] == stays }) {
			earlier = append(earlier, u)
		}
		if f.in[u] == stays && !slices.ContainsFunc(g.Preds.Of(u), func(w int32) bool { return f.in[w] == stays }) {
			later = append(later, u)
		}
	}
	return earlier, later, true
}

// mayForce reports whether the orders seen leave any node to test.
func (c *Cutter) mayForce() bool {
	for u, m := range c.Marks {
		if m == Free && (c.forced.in[u] != moves || c.forced.out[u] != moves) {
			return true
		}
	}
	return false
}

// Placed is an order that was seen: the place and the load of each node.
type Placed struct {
	Place []int32
	Load  []int64
}

// forcing says of each node whether it can move to a side of v: in, to run before v, or
// out, to run after it.
type forcing struct {
	in, out      []motion
	small, large []bool
	todo, stack  []int32
}

// motion is what is known of a node and a side.
type motion int8

const (
	untested motion = iota
	moves           // to this side, at a load within the limit
	stays           // on the other side, for all choices tested so far
)

// maxTests bounds the tests of one node and side.
const maxTests = 3000

// forcedBy tests which nodes the last cut cannot move within the slack. It reports whether
// any stays for all choices so far. When the work is done, what is not tested counts as
// moving.
func (c *Cutter) forcedBy(slack, work int64) bool {
	f := &c.forced
	f.small, f.large = indexed.Resize(f.small, c.g.Nodes), indexed.Resize(f.large, c.g.Nodes)
	c.Minimiser(false, f.small)
	c.Minimiser(true, f.large)
	in := c.stay(f.in, func(x int32) bool { return !f.large[x] }, &c.g.Succs, slack, work, false)
	out := c.stay(f.out, func(x int32) bool { return f.small[x] }, &c.g.Preds, slack, work, true)
	return in || out
}

// stay tests those of the free nodes that may stay on their side, and reports whether any
// does. The network is reversed where nodes are to move to the sink's side.
//
// If x stays, so does every node that comes along with x: its descendants, if x would have
// to move in, or its ancestors, if out. If x moves, so does all that its cut moves. So
// each test is in the middle of what is not known: on a chain of n nodes, log n suffice.
func (c *Cutter) stay(known []motion, may func(x int32) bool, along *indexed.Lists, slack, work int64, reverse bool) (any bool) {
	f := &c.forced
	todo := f.todo[:0]
	for _, x := range c.free {
		if known[x] != moves && may(x) {
			known[x] = untested
			todo = append(todo, x)
		} else {
			known[x] = moves
		}
	}
	f.todo = todo
	if len(todo) == 0 {
		return false
	}
	if reverse {
		c.flow.Reverse()
	}
	c.Hold()
	tests := 0
	var halve func(todo []int32)
	halve = func(todo []int32) {
		half := len(todo) / 2
		at := -1
		for i := range todo {
			// From the middle outwards: half, half-1, half+1, ...
			k := half + (i+1)/2*(1-i%2*2)
			if k < len(todo) && k >= 0 && known[todo[k]] == untested {
				at = k
				break
			}
		}
		if at < 0 || tests == maxTests || c.meter.Flow > work || c.Broken() {
			return
		}
		tests++
		x := todo[at]
		if c.exceeds(x, slack, work) && !c.Broken() {
			any = true
			c.mark(x, known, along)
		} else {
			known[x] = moves
			for _, u := range c.flow.Visited() {
				if i := int(u) - 2; i >= 0 && i < len(c.free) {
					known[c.free[i]] = moves
				}
			}
		}
		halve(todo[:at])
		halve(todo[at+1:])
	}
	halve(todo)
	for _, x := range todo {
		if known[x] == untested {
			known[x] = moves
		}
	}
	return any
}

// exceeds reports whether the minimum rises by more than the slack if x moves to the
// source's side. If not, the network's Visited has nodes that may move, x among them, or
// none if the work has come to an amount.
func (c *Cutter) exceeds(x int32, slack, work int64) bool {
	before := c.flow.Work
	yes, known := c.flow.Exceeds(c.vertex[x], slack)
	if !known {
		c.Require(x)
		yes = c.flow.AnswerWithin(slack+1, work-c.meter.Flow) > slack
	}
	c.meter.Flow += c.flow.Work - before
	return yes
}

// mark says that x stays and all untested nodes along with it.
func (c *Cutter) mark(x int32, known []motion, along *indexed.Lists) {
	f := &c.forced
	known[x] = stays
	f.stack = append(f.stack[:0], x)
	for len(f.stack) > 0 {
		u := f.stack[len(f.stack)-1]
		f.stack = f.stack[:len(f.stack)-1]
		for _, w := range along.Of(u) {
			if c.Marks[w] == Free && known[w] == untested {
				known[w] = stays
				f.stack = append(f.stack, w)
			}
		}
	}
}
