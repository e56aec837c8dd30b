package schedule

import "slices"

// pair merges v with a sibling of a later place: a node that has the same
// predecessors, successors and inputs. One runs right after the other, if neither
// claims anything and
//
//	trans(u) <= outs(u) + trans(w)   and   trans(w) <= outs(w) + trans(u)
//
// First runs the one for which outs(first) + trans(second), which the two need
// then, is smaller.
//
// Proof. Take any order, in which one runs before the other, say u before w, and
// move u to right before w, which no successor forbids. u frees nothing, at its old
// place or its new one: what it reads, w reads after it. So the states in between
// lose what u makes, no load there grows, and no node there loses a claim, since w
// had not run. Let S be the state before the two. They needed live(S) + outs(u) +
// trans(w) for w, and that is what both need now in this order, by the first
// condition. In the other order they lead from S to the same state, and need
// live(S) + outs(w) + trans(u) by the second. The smaller of the two is not above
// what they needed, and likewise where w ran before u.
//
// The comparisons that make a mask of what they compare are siblings: a clip has
// two of them.
func (c *contraction) pair(v int32) bool {
	if len(c.succs[v]) == 0 || c.claims(v) {
		return false
	}
	near := c.preds[c.succs[v][0]]
	if len(near) > maxReaders {
		return false
	}
	for _, w := range near {
		if c.place[w] > c.place[v] && !c.claims(w) && c.alike(v, w) {
			return true
		}
	}
	return false
}

func (c *contraction) claims(v int32) bool {
	return c.frozen[v] || len(c.pairs[v])+len(c.credits[v]) > 0
}

// alike merges two nodes if they are siblings.
func (c *contraction) alike(u, w int32) bool {
	first, second := c.outs[u]+c.trans[w], c.outs[w]+c.trans[u] // as u then w need, and w then u
	if c.trans[u] > first || c.trans[w] > second ||
		!sameSet(c.reads[u], c.reads[w]) || !sameSet(c.preds[u], c.preds[w]) || !sameSet(c.succs[u], c.succs[w]) {
		return false
	}
	anchors := append(slices.Clip(c.anchors[u]), c.anchors[w]...)
	if second < first {
		u, w = w, u
	}
	c.merge(u, w, w, min(first, second))
	c.anchors[w] = anchors
	return true
}

// sameSet compares lists without repeats.
func sameSet(a, b []int32) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x int32) bool { return !slices.Contains(b, x) })
}
