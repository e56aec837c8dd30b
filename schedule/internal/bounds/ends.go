package bounds

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// First returns the least load of the node of a set that runs first, over all nodes
// that may be it.
//
// A set of hundreds of nodes would take as many cuts. So the cut of the state that
// all candidates share is solved first; with what a node adds while it runs, it
// bounds that node's load from below. Candidates are tried by this floor, least
// first, until the next floor is not below the least load so far. The shared state
// contains no node of the set, but all nodes that come before every candidate. A
// candidate adds only the rest of its ancestors to it: a question to the network that
// is kept ([maxflow.Network.Hold]).
//
// First stops at the first candidate whose load does not exceed enough: a set that
// proves nothing new costs little more than one cut. Once the flows have visited
// more than work, the floor of the next candidate is the bound.
func (c *Cutter) First(g *indexed.Problem, set []int32, enough, work int64) Certificate {
	c.Begin(g)
	for _, u := range set {
		c.spread(u, Outside, &g.Succs)
	}
	may := make([]candidate, 0, len(set))
	for _, v := range set {
		if !marked(c.Marks, g.Preds.Of(v), Outside) { // else another of the set comes before it
			may = append(may, candidate{v, g.Transient[v] - g.MostSaved(v)})
		}
	}
	backward := g.Listing()
	slices.Reverse(backward)
	c.share(may, Inside, backward, &g.Succs)
	common := c.least(-1, nil, infinite)
	c.flow.Hold()
	return Certificate{Kind: First, Nodes: set, Value: c.cheapest(may, common, enough, work, func(v int32, enough int64) int64 {
		return c.firstAt(v, common, enough)
	})}
}

// Last is the mirror image of First. All candidates share a state that follows the
// node and contains the whole set. The load of v before it is
//
//	live(S) + trans(v) - saved = live(S + v) + trans(v) - made + freed - saved
//
// where made is what v makes and leaves. A tensor that v both frees and saves cancels
// out, so the last two terms are at least what v surely frees and does not claim,
// less what it always saves.
func (c *Cutter) Last(g *indexed.Problem, set []int32, enough, work int64) Certificate {
	c.Begin(g)
	for _, u := range set {
		c.spread(u, Inside, &g.Preds)
	}
	may := make([]candidate, 0, len(set))
	for _, v := range set {
		if !marked(c.Marks, g.Succs.Of(v), Inside) { // else another of the set comes after it
			may = append(may, candidate{v, c.leaves(v)})
		}
	}
	c.share(may, Outside, g.Listing(), &g.Preds)
	common := c.least(-1, nil, infinite)
	c.base = append(c.base[:0], c.Marks...)
	return Certificate{Kind: Last, Nodes: set, Value: c.cheapest(may, common, enough, work, func(v int32, enough int64) int64 {
		copy(c.Marks, c.base)
		c.Marks[v] = Free
		c.spread(v, Outside, &g.Succs)
		load, _ := c.choose(v, enough)
		return load
	})}
}

// candidate is a node that may run first, or last, and the least that its load is
// above the live bytes of the shared state.
type candidate struct {
	node  int32
	above int64
}

// cheapest returns the least load of the candidates, or something not above it.
func (c *Cutter) cheapest(may []candidate, common, enough, work int64, load func(v int32, enough int64) int64) int64 {
	slices.SortStableFunc(may, func(a, b candidate) int { return cmp.Compare(a.above, b.above) })
	work += c.meter.Flow
	bound := infinite
	for _, x := range may {
		floor := common + x.above
		if floor >= bound || c.Broken() {
			break
		}
		if c.meter.Flow > work {
			return floor
		}
		if bound = min(bound, load(x.node, bound)); bound <= enough {
			break
		}
	}
	return bound
}

// firstAt returns the least load of v from a state with its ancestors and, beside
// them, what the marks allow; it may stop early at enough. The network must be held,
// with common as its least live(S).
func (c *Cutter) firstAt(v int32, common, enough int64) int64 {
	g := c.g
	choices, more := g.Choices(v)
	load := infinite
	for _, choice := range choices {
		x := common + g.Transient[v] - more - indexed.Total(choice)
		for _, u := range g.Preds.Of(v) {
			if c.Marks[u] == Free {
				c.Require(u)
			}
		}
		for _, s := range choice {
			if s.Over >= 0 {
				x += c.withhold(v, s)
			}
		}
		load = min(load, x+c.Answer(min(enough, load)-x))
	}
	return load
}

// Hold keeps the network and its maximum flow for questions: Require, then Answer.
func (c *Cutter) Hold() { c.flow.Hold() }

// Require forces a free node in, and its ancestors with it, in the question that the
// next Answer answers.
func (c *Cutter) Require(v int32) {
	if at := c.vertex[v]; !c.flow.Barred(at) {
		c.flow.Ask(at, infinite)
	}
}

// Answer returns by how much the question raises the minimum; it may stop early at
// enough. The network is then as it was held.
func (c *Cutter) Answer(enough int64) int64 {
	before := c.flow.Work
	raised := c.flow.Answer(enough)
	c.meter.Flow += c.flow.Work - before
	return raised
}

// withhold adds to the question the edges that cost a saving of v in states that do
// not give it, or returns its size if no state does.
func (c *Cutter) withhold(v int32, s indexed.Saving) int64 {
	readers, waits := c.g.Readers.Of(s.Over), false
	for _, r := range readers {
		switch {
		case r == v:
		case c.Marks[r] == Outside:
			return s.Size
		case c.Marks[r] == Free:
			waits = waits || !c.flow.Barred(c.vertex[r])
		}
	}
	if waits {
		a := c.flow.NewVertex()
		c.flow.Ask(a, s.Size)
		for _, r := range readers {
			if r != v && c.Marks[r] == Free {
				c.flow.AskFrom(a, c.vertex[r], infinite)
			}
		}
	}
	return 0
}

// leaves returns the least that the load of v is above the live bytes after it.
func (c *Cutter) leaves(v int32) int64 {
	g := c.g
	above := g.Transient[v]
	for _, t := range g.Makes.Of(v) {
		above -= g.Size[t]
	}
	choices, _ := g.Choices(v)
	var always int64
	for _, choice := range choices {
		var sum int64
		for _, x := range choice {
			if x.Over < 0 {
				sum += x.Size
			}
		}
		always = max(always, sum)
	}
	above -= always
	for _, t := range g.Reads.Of(v) {
		if !g.Output[t] && !g.Claims(v, t) && !slices.ContainsFunc(g.Readers.Of(t), func(r int32) bool { return r != v && c.Marks[r] != Inside }) {
			above += g.Size[t]
		}
	}
	return above
}

// share marks the free nodes that come before all candidates: each state that is asked
// about contains them. With the predecessors as next, and an order from first to last, it
// marks those that come after all candidates. One pass over the order finds, for each
// node, which of 64 candidates it leads to.
//
// What stays free, the cut of the shared state leaves out where that has fewer live bytes.
// So if all candidates follow a forward pass, their floors are low without it.
func (c *Cutter) share(may []candidate, m Mark, order []int32, next *indexed.Lists) {
	to := make([]uint64, c.g.Nodes)
	left := order
	for len(may) > 0 && len(left) > 0 {
		some := may[:min(len(may), 64)]
		may = may[len(some):]
		clear(to)
		for i, x := range some {
			to[x.node] = 1 << i
		}
		for _, v := range order {
			for _, w := range next.Of(v) {
				to[v] |= to[w]
			}
		}
		all := ^uint64(0) >> (64 - len(some))
		shared := make([]int32, 0, len(left))
		for _, v := range left {
			if to[v] == all && c.Marks[v] == Free {
				shared = append(shared, v)
			}
		}
		left = shared
		c.meter.Flow += int64(c.g.Nodes)
	}
	for _, v := range left {
		c.Marks[v] = m
	}
}

func marked(marks []Mark, nodes []int32, m Mark) bool {
	return slices.ContainsFunc(nodes, func(u int32) bool { return marks[u] == m })
}
