package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// FirstBound returns a number of bytes below which the peak of no order can go,
// because one node of the set runs before all others of it:
//
//	min over v in A with no ancestor in A, over M, over S of
//	trans(v) - size(M) + live(S) + Σ size(o)
//
// as in [CutBound], but S holds all ancestors of v and neither a node of A nor
// a descendant of one. The set must not be empty, the problem valid.
//
// Proof. Some node v of A runs first, so no ancestor of v is in A, and the state
// from which it runs holds no node of A and thus no descendant of one. That the
// load of v there is not below the value follows as for CutBound.
//
// What this adds to the bounds of single nodes: each of those may put off all
// other costly nodes, but they cannot all be put off.
func FirstBound(p *Problem, set []int32) int64 {
	var c cutter
	g := indexed.NewProblem(flatten(p))
	return c.firstOf(g, set, -1, math.MaxInt64/2)
}

// LastBound is the mirror image of [FirstBound]: one node of the set runs after
// all others of it. The least is over v in A with no descendant in A, and S
// holds all ancestors of all nodes of A and all of A but v, and neither v nor a
// descendant of v.
//
// Proof. Some node v of A runs last, so no descendant of v is in A, and the
// state from which it runs holds all others of A and their ancestors.
func LastBound(p *Problem, set []int32) int64 {
	var c cutter
	g := indexed.NewProblem(flatten(p))
	return c.lastOf(g, set, -1, math.MaxInt64/2)
}

// A set of hundreds of nodes would take as many cuts. So the cut that all have in
// common is solved first, and adds what a node needs to a floor for that node. The
// nodes are asked by their floors, until one is not below the least load so far.
//
// firstOf stops at the first node whose load does not exceed enough: a set that
// proves nothing new costs little more than that cut. When the flows have visited
// more than work, the floor of the next node is the bound.
//
// The state that all have in common holds no node of the set; what a node adds to it
// is its ancestors: see [maxflow.Network.Hold].
func (c *cutter) firstOf(g *indexed.Problem, set []int32, enough, work int64) (bound int64) {
	c.begin(g)
	for _, u := range set {
		c.spread(u, outside, &g.Succs)
	}
	may := make([]floored, 0, len(set))
	for _, v := range set {
		if !marked(c.mark, g.Preds.Of(v), outside) { // else another of the set comes before it
			may = append(may, floored{v, g.Transient[v] - g.MostSaved(v)})
		}
	}
	if v := meet(g, may, &g.Preds, 1); v >= 0 {
		c.spread(v, inside, &g.Preds)
	}
	common := c.least(-1, nil, indexed.Infinite)
	c.Hold()
	return c.anyOf(may, common, enough, work, func(v int32, enough int64) int64 {
		return c.firstAt(v, common, enough)
	})
}

// lastOf is the mirror image of firstOf. All have a state in common that follows the
// node: it holds the whole set. The load of v before it is
//
//	live(S) + trans(v) - saved = live(S + v) + trans(v) - made + freed - saved
//
// made what v makes and leaves. A tensor that v frees and saves counts for nothing,
// so that the last two terms are at least what v surely frees and does not claim,
// less what it always saves.
func (c *cutter) lastOf(g *indexed.Problem, set []int32, enough, work int64) (bound int64) {
	c.begin(g)
	for _, u := range set {
		c.spread(u, inside, &g.Preds)
	}
	may := make([]floored, 0, len(set))
	for _, v := range set {
		if !marked(c.mark, g.Succs.Of(v), inside) { // else another of the set comes after it
			may = append(may, floored{v, c.leaves(v)})
		}
	}
	if v := meet(g, may, &g.Succs, -1); v >= 0 {
		c.spread(v, outside, &g.Succs)
	}
	common := c.least(-1, nil, indexed.Infinite)
	c.base = append(c.base[:0], c.mark...)
	return c.anyOf(may, common, enough, work, func(v int32, enough int64) int64 {
		copy(c.mark, c.base)
		c.mark[v] = free
		c.spread(v, outside, &g.Succs)
		load, _ := c.choose(v, enough)
		return load
	})
}

// floored is a node, and what its load is at least above the live bytes of the state
// in common.
type floored struct {
	node  int32
	above int64
}

// anyOf returns the least load of some nodes, of which one is the case, or something
// not above it.
func (c *cutter) anyOf(may []floored, common, enough, work int64, at func(v int32, enough int64) int64) int64 {
	slices.SortStableFunc(may, func(a, b floored) int { return cmp.Compare(a.above, b.above) })
	work += c.Work
	bound := indexed.Infinite
	for _, x := range may {
		floor := common + x.above
		if floor >= bound || c.Broken {
			break
		}
		if c.Work > work {
			return floor
		}
		if bound = min(bound, at(x.node, bound)); bound <= enough {
			break
		}
	}
	return bound
}

// meet returns a node that comes before all of some nodes, or with the successors as
// neighbours and sign -1 one that comes after them; -1 if it finds none. As long as
// several are left, the last of the listing gives way to the last of its predecessors.
// O(V log V).
func meet(g *indexed.Problem, nodes []floored, neighbours *indexed.Lists, sign int32) int32 {
	place := make([]int32, g.Nodes)
	for i, v := range g.Listing() {
		place[v] = sign * int32(i)
	}
	later := func(a, b int32) bool { return place[a] > place[b] }
	left, in := indexed.Heap[int32]{Less: later}, make([]bool, g.Nodes)
	for _, x := range nodes {
		left.Push(x.node)
		in[x.node] = true
	}
	for met := false; ; met = true {
		v := left.Pop()
		if len(left.Items) == 0 && met {
			return v
		}
		last := int32(-1)
		for _, u := range neighbours.Of(v) {
			if last < 0 || later(u, last) {
				last = u
			}
		}
		if last < 0 {
			return -1
		}
		if !in[last] {
			in[last] = true
			left.Push(last)
		}
	}
}

// leaves returns what the load of v is at least above the live bytes after it.
func (c *cutter) leaves(v int32) int64 {
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
		if !g.Output[t] && !g.Claims(v, t) && !slices.ContainsFunc(g.Readers.Of(t), func(r int32) bool { return r != v && c.mark[r] != inside }) {
			above += g.Size[t]
		}
	}
	return above
}

func marked(marks []mark, nodes []int32, m mark) bool {
	return slices.ContainsFunc(nodes, func(u int32) bool { return marks[u] == m })
}
