package reduce

// ends computes what the rule for idle nodes needs: the bytes live before the
// first and after the last step, and a load that no order escapes.
func (c *contraction) ends() {
	g := c.g
	c.first, c.last = g.LiveFirst(), g.LiveLast()
	for i := range g.Nodes {
		v := int32(i)
		load := g.Base + g.Transient[v] - c.mostGiven(v)
		for _, t := range g.Reads.Of(v) {
			load += g.Size[t]
		}
		c.escape = max(c.escape, load)
	}
}

// takeOut takes out a node that reads and makes no bytes, if it can run before
// or after all others. Such a node delays nothing; it needs a moment with room:
//
//	no successors, and trans = 0 or last + trans <= escape: after all others
//	no predecessors, and trans = 0 or first + trans <= escape: before them
//
// Proof: it changes no live bytes, so that the loads of the others stay; its
// own load at the end is last + trans, which is not above the load escape that
// every order has, or is last, which is not above the load of the last step.
// The node that gives escape may be one that is taken out, so the optimum is
// the larger of that of the rest and of the loads of what was taken out.
//
// Step counters are such nodes. They can run at any time, so while they are
// there no node is comparable with all others, and the net has no bridges.
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
