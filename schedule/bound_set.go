package schedule

import "slices"

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
	g := newNet(flatten(p))
	bound, _ := c.firstOf(g, set, -1, len(set))
	return bound
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
	g := newNet(flatten(p))
	bound, _ := c.lastOf(g, set, -1, len(set))
	return bound
}

// firstOf stops at the first v whose value does not exceed enough: a set that
// proves nothing new costs one or two cuts. It gives up, with false, when the
// set takes more cuts than that.
func (c *cutter) firstOf(g *net, set []int32, enough int64, cuts int) (bound int64, ok bool) {
	c.begin(g)
	for _, u := range set {
		c.spread(u, outside, &g.succs)
	}
	c.base = append(c.base[:0], c.mark...)
	bound = infinite
	for _, v := range set {
		if marked(c.base, g.preds.of(v), outside) {
			continue // some other node of the set comes before it
		}
		if cuts--; cuts < 0 {
			return 0, false
		}
		copy(c.mark, c.base)
		c.mark[v] = free
		c.spread(v, inside, &g.preds)
		c.mark[v] = outside
		least, _ := c.choose(v, bound)
		if bound = min(bound, least); bound <= enough || c.Broken {
			break
		}
	}
	return bound, true
}

func (c *cutter) lastOf(g *net, set []int32, enough int64, cuts int) (bound int64, ok bool) {
	c.begin(g)
	for _, u := range set {
		c.spread(u, inside, &g.preds)
	}
	c.base = append(c.base[:0], c.mark...)
	bound = infinite
	for _, v := range set {
		if marked(c.base, g.succs.of(v), inside) {
			continue // some other node of the set comes after it
		}
		if cuts--; cuts < 0 {
			return 0, false
		}
		copy(c.mark, c.base)
		c.mark[v] = free
		c.spread(v, outside, &g.succs)
		least, _ := c.choose(v, bound)
		if bound = min(bound, least); bound <= enough || c.Broken {
			break
		}
	}
	return bound, true
}

func marked(marks []mark, nodes []int32, m mark) bool {
	return slices.ContainsFunc(nodes, func(u int32) bool { return marks[u] == m })
}
