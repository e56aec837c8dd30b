package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// CutBound returns a number of bytes below which the load of node v cannot go,
// whatever the order and whatever pairs it takes:
//
//	min over M   trans(v) - size(M) + min over S { live(S) + Σ size(o) },
//
// M the maximal matchings of v's in-place pairs (o, t), S the downsets that
// hold all ancestors of v and neither v nor a descendant, the sum over the
// pairs of M that have a reader of t other than v outside S. If there are more
// than 16 matchings: size of the largest, and no sum. One minimum cut for each
// M: see cutter. The problem must be valid.
//
// Proof. Whatever the order, the state from which v runs is such an S: it is a
// downset, it holds all that v needs, and nothing that needs v. The load is
// live(S) + trans(v) less the pairs taken, which are a matching of those whose
// t has no other reader left; it is part of a maximal matching M, and the load
// is not below the value of (M, S), since the pairs of M that S does not free
// are added back.
func CutBound(p *Problem, v int32) int64 {
	var c cutter
	return c.node(indexed.NewProblem(flatten(p)), v)
}

// node returns the bound of v. The minimum cut that is left behind is that of
// the last choice; see [cutter.nodeChoice].
func (c *cutter) node(g *indexed.Problem, v int32) int64 {
	c.begin(g)
	c.around(v)
	least, _ := c.choose(v, indexed.Infinite)
	return least
}

// nodeSplit is node, and leaves behind the cut of the choice that attains it.
func (c *cutter) nodeSplit(g *indexed.Problem, v int32) int64 {
	c.begin(g)
	c.around(v)
	least, at := c.choose(v, indexed.Infinite)
	choices, _ := g.Choices(v)
	if at != len(choices)-1 {
		c.least(v, choices[at], indexed.Infinite)
	}
	return least
}

// choose returns the least load of v under the marks, over its choices, and the
// choice that has it, or something not below enough if the least is not. v must
// be outside.
func (c *cutter) choose(v int32, enough int64) (least int64, at int) {
	choices, more := c.g.Choices(v)
	above := c.g.Transient[v] - more
	least = indexed.Infinite
	for i, choice := range choices {
		saved := indexed.Total(choice)
		if x := c.least(v, choice, enough-above+saved) - saved; x < least {
			least, at = x, i
		}
		if c.Broken {
			break
		}
	}
	return least + above, at
}
