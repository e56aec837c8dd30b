package schedule

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
