package reduce

import "slices"

// delay makes u wait for what a node y waits for, if
//
//	a. each successor of u is y or comes after it, and y does not come after u
//	b, d. of backward hold for y in place of w
//
// Proof. Take any order in which u runs before y, and move u to right before y,
// which a allows. As in the proof of backward, no load grows. In the others u runs
// after y. What holds for the net with these edges, which carry no bytes, holds for
// the next such edges in turn.
//
// A node of the backward pass that reads what the forward pass made may run at any
// time between the two; while it may, no node of the forward pass is comparable
// with all others, and the net has no bridges there.
func (c *contraction) delay(u int32) {
	if len(c.succs[u]) == 0 {
		return
	}
	tried := append([]int32(nil), c.succs[u][0])
	for i := 0; i < len(tried); i++ {
		y := tried[i]
		if c.waitsFor(u, y) && c.canWait(u, y) {
			for _, p := range c.preds[y] {
				if p != u && !c.precedes(p, u) {
					c.preds[u] = with(c.preds[u], p)
					c.succs[p] = with(c.succs[p], u)
				}
			}
			return
		}
		for _, p := range c.preds[y] {
			if len(tried) < maxDelays && c.place[p] < c.place[u] && !slices.Contains(tried, p) {
				tried = append(tried, p)
			}
		}
	}
}

// maxDelays is how many nodes are tried.
const maxDelays = 12

// waitsFor reports whether u may stand right before y in each order in which it
// runs before y. Nodes of a smaller place do not come after u.
func (c *contraction) waitsFor(u, y int32) bool {
	for _, w := range c.succs[u] {
		if !c.precedes(y, w) {
			return false
		}
	}
	return !slices.ContainsFunc(c.preds[y], func(p int32) bool { return p != u && c.place[p] > c.place[u] })
}

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
