package bounds

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// Node returns the least load of v in any order:
//
//	min over M   trans(v) - size(M) + min over S { live(S) + Σ size(o) },
//
// M the maximal matchings of v's in-place pairs (o, t), S the downsets that contain
// all ancestors of v and neither v nor a descendant, the sum over the pairs of M
// that have a reader of t other than v outside S. It takes one minimum cut for each
// M; the network of the last one is left behind.
func (c *Cutter) Node(g *indexed.Problem, v int32) Certificate {
	c.Begin(g)
	c.around(v)
	least, _ := c.choose(v, infinite)
	return Certificate{Cut, []int32{v}, least}
}

// NodeState is Node that leaves behind the cut of the matching that attains the
// minimum, for Minimiser.
func (c *Cutter) NodeState(g *indexed.Problem, v int32) int64 {
	c.Begin(g)
	c.around(v)
	least, at := c.choose(v, infinite)
	c.again(v, at)
	return least
}

// again repeats the cut of one choice of savings, if it was not the last.
func (c *Cutter) again(v int32, choice int) {
	if choices, _ := c.g.Choices(v); choice != len(choices)-1 {
		c.least(v, choices[choice], infinite)
	}
}

// choose returns the least load of v under the marks and the choice of savings that
// attains it; it may stop early at enough. v must be outside.
func (c *Cutter) choose(v int32, enough int64) (least int64, at int) {
	choices, more := c.g.Choices(v)
	above := c.g.Transient[v] - more
	least = infinite
	for i, choice := range choices {
		saved := indexed.Total(choice)
		if x := c.least(v, choice, enough-above+saved) - saved; x < least {
			least, at = x, i
		}
		if c.Broken() {
			break
		}
	}
	return least + above, at
}

// Against returns the least load of v from a state that contains none of the others,
// or with hold from a state that contains them all.
func (c *Cutter) Against(g *indexed.Problem, v int32, others []int32, hold bool) int64 {
	c.Begin(g)
	c.around(v)
	for _, w := range others {
		if hold {
			c.spread(w, Inside, &g.Preds)
		} else {
			c.spread(w, Outside, &g.Succs)
		}
	}
	load, _ := c.choose(v, infinite)
	return load
}

// Witness returns a state that shows a certificate: of its nodes the one that can
// run at the least load, and writes the state from which it does to ran.
func (c *Cutter) Witness(g *indexed.Problem, x Certificate, ran []bool) (at int32) {
	if x.Kind == Cut {
		c.NodeState(g, x.Nodes[0])
		c.Minimiser(false, ran)
		return x.Nodes[0]
	}
	away, side, toward, other := &g.Succs, Outside, &g.Preds, Inside
	if x.Kind == Last {
		away, side, toward, other = &g.Preds, Inside, &g.Succs, Outside
	}
	c.Begin(g)
	for _, u := range x.Nodes {
		c.spread(u, side, away)
	}
	c.base = append(c.base[:0], c.Marks...)
	at = -1
	least := infinite
	for _, v := range x.Nodes {
		if marked(c.base, toward.Of(v), side) {
			continue // another node of the set stands in its way
		}
		copy(c.Marks, c.base)
		c.Marks[v] = Free
		c.spread(v, other, toward)
		c.Marks[v] = Outside
		if load, choice := c.choose(v, infinite); load < least {
			least, at = load, v
			c.again(v, choice)
			c.Minimiser(false, ran)
		}
	}
	return at
}
