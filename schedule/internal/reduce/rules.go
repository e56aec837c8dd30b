package reduce

import (
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// ends computes what the rule for idle nodes needs: the bytes live before the first step
// and after the last, and a load that no order escapes.
func (c *contraction) ends() {
	g := c.g
	c.first, c.last = g.LiveFirst(), g.LiveLast()
	for i := range g.Nodes {
		v := int32(i)
		load := g.Base + c.trans[v] - c.mostGiven(v) // credits that are always given are off both
		for _, t := range g.Reads.Of(v) {
			load += g.Size[t]
		}
		c.escape = max(c.escape, load)
	}
}

// takeOut takes out a node that reads and makes no bytes if it can run before or after all
// others. Such a node needs a moment with room for its workspace:
//
//	no successors, and trans = 0 or last + trans <= escape: after all others
//	no predecessors, and trans = 0 or first + trans <= escape: before all others
//
// Proof. The node changes no live bytes, so the loads of the others stay. Its own load at
// the end is last + trans, at most the load escape that every order has; or it is last, at
// most the load of the last step. The node that gives escape may itself be taken out, so
// the optimum is the larger of the rest's optimum and of the loads of the nodes taken out.
//
// Step counters are such nodes. They can run at any time: as long as they are there, no
// node is ordered with all others, and the problem has no separators.
func (c *contraction) takeOut(v int32) bool {
	if len(c.reads[v]) > 0 || c.outs[v] > 0 || c.left == 1 {
		return false
	}
	trans := c.trans[v]
	switch r := &c.result; {
	case len(c.succs[v]) == 0 && (trans == 0 || c.last+trans <= c.escape):
		for i := len(c.run[v]) - 1; i >= 0; i-- {
			r.tail = append(r.tail, c.run[v][i]) // from the end
		}
		for _, u := range c.preds[v] {
			c.succs[u] = without(c.succs[u], v)
		}
		r.Floor = max(r.Floor, c.last+trans)
	case len(c.preds[v]) == 0 && (trans == 0 || c.first+trans <= c.escape):
		r.head = append(r.head, c.run[v]...)
		for _, w := range c.succs[v] {
			c.preds[w] = without(c.preds[w], v)
		}
		r.Floor = max(r.Floor, c.first+trans)
	default:
		return false
	}
	c.preds[v], c.succs[v], c.run[v] = nil, nil, nil
	c.gone[v] = true
	c.left--
	return true
}

// delay makes u wait for what a node y waits for, if
//
//	a. each successor of u is y or comes after it, and y does not come after u
//	b, d. of backward hold for y in place of w
//
// Proof. Take any order in which u runs before y, and move u to right before y, which a
// allows. As in the proof of backward, no load grows. In all other orders u runs after y.
// The argument holds again for the problem with these edges, which carry no bytes.
//
// A node of the backward pass that reads a result of the forward pass may run at any time
// between the two. As long as it may, no node of the forward pass is ordered with all
// others, and there are no separators.
func (c *contraction) delay(u int32) {
	if len(c.succs[u]) == 0 {
		return
	}
	tried := append([]int32(nil), c.succs[u][0])
	for i := 0; i < len(tried); i++ {
		y := tried[i]
		if c.mayWait(u, y) && c.waitsFor(u, y) && c.canWait(u, y) {
			for _, p := range c.preds[y] {
				if p != u && !c.precedes(p, u) {
					c.preds[u] = with(c.preds[u], p)
					c.succs[p] = with(c.succs[p], u)
					c.sets.add(c.place[p], c.place[u])
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

// maxDelays is how many nodes y are tried.
const maxDelays = 12

// waitsFor reports whether u can stand right before y in every order that runs u before y.
// Nodes of a smaller place do not come after u.
func (c *contraction) waitsFor(u, y int32) bool {
	for _, w := range c.succs[u] {
		if !c.precedes(y, w) {
			return false
		}
	}
	return !slices.ContainsFunc(c.preds[y], func(p int32) bool { return p != u && c.place[p] > c.place[u] })
}

// delayAll makes each node u wait for all nodes that come before each successor of u, if b
// and d of backward hold for every successor w. It reports whether any node waits for
// more than before.
//
//	x ─▶ w1, w2          u ... x ... w1 ... w2      any order
//	u ─▶ w1, w2          ... x ... u w1 ... w2      u moved
//
// Proof. Take any order. Of the successors of u let w run first, and move u to right before
// w. As in the proof of backward, no load grows. All ancestors of w, x among them, then run
// before u. The argument holds again for the problem with these edges.
//
// An index that several readers take may be computed at any time before the first of them.
// As long as it may, the search runs through all moments at which it might be.
//
// Problems of more than maxSets nodes are left as they are.
func (c *contraction) delayAll() (changed bool) {
	if c.left > maxSets {
		return false
	}
	c.relist()
	sets := c.sets
	common := make([]uint64, sets.words)
	for _, u := range slices.Backward(c.listing) {
		if len(c.succs[u]) == 0 || slices.ContainsFunc(c.succs[u], func(w int32) bool { return !c.canWait(u, w) }) {
			continue
		}
		for k := range common {
			common[k] = ^uint64(0)
		}
		for _, w := range c.succs[u] {
			at := c.place[w]
			for k, x := range sets.of(at) {
				if k == int(at/64) {
					x &^= 1 << (at % 64)
				}
				common[k] &= x
			}
		}
		own := sets.of(c.place[u])
		for k := sets.words - 1; k >= 0; k-- {
			for left := common[k] &^ own[k]; left != 0; left = common[k] &^ own[k] {
				// The last one left is no ancestor of another.
				x := c.listing[k*64+bits.Len64(left)-1]
				c.preds[u] = append(c.preds[u], x)
				c.succs[x] = append(c.succs[x], u)
				sets.add(c.place[x], c.place[u])
				changed = true
			}
		}
	}
	if changed {
		c.relist()
	}
	return changed
}

// relist lists the nodes that are left in a topological order, as close to the present one
// as it can be, and finds their ancestors again.
func (c *contraction) relist() {
	waits := make([]int32, len(c.place))
	ready := indexed.Heap[int32]{Less: func(a, b int32) bool { return c.place[a] < c.place[b] }}
	for _, v := range c.listing {
		if c.gone[v] {
			continue
		}
		if waits[v] = int32(len(c.preds[v])); waits[v] == 0 {
			ready.Push(v)
		}
	}
	listing := make([]int32, 0, c.left)
	for len(ready.Items) > 0 {
		v := ready.Pop()
		listing = append(listing, v)
		for _, w := range c.succs[v] {
			if waits[w]--; waits[w] == 0 {
				ready.Push(w)
			}
		}
	}
	c.listing = listing
	for i, v := range listing {
		c.place[v] = int32(i)
	}
	c.findAncestors()
}

// pair merges v with a sibling of a later place: a node with the same predecessors,
// successors and inputs. One runs right after the other, if neither claims anything and
//
//	trans(u) <= outs(u) + trans(w)   and   trans(w) <= outs(w) + trans(u)
//
// The two then need outs(first) + trans(second); the node for which this is smaller runs
// first.
//
// Proof. Take any order, say one that runs u before w, and move u to right before w, which
// no successor forbids. u frees nothing, at its old place or its new one: w reads its
// inputs after it. So the states in between lose the outputs of u, no load there grows, and
// no node there loses a claim, since w had not run. Let S be the state before the two. w
// needed live(S) + outs(u) + trans(w), and by the first condition both need no more now. In
// the other sequence they lead from S to the same state, and need live(S) + outs(w) +
// trans(u) by the second condition. The smaller of the two is at most what they needed. If
// w ran before u, the same holds with u and w exchanged.
//
// The two comparisons that make the mask of a clip are siblings.
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
