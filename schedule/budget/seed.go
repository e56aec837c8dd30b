package budget

import (
	"cmp"
	"slices"
)

// guide lets plans be tried that keep what the cuts at the peak of the plain step
// hold, those around a limit: from what such a cut leaves out, unless that would
// take too long, and from nothing.
func (s *Solver) guide(c *chainer, limit int64, spent func() bool, try func(c *chainer, plan makings, how greed)) {
	if spent() {
		return
	}
	c.run(nil, false)
	at := c.at
	for _, x := range s.bound.hullOf(c.work, c.order[at]).near(limit) {
		if _, ok := s.bound.cut(x.alpha, x.beta); !ok {
			return
		}
		c.hold(s.bound.heldTensors())
		if !spent() {
			try(c, c.seed(at, spent), greed{batch: 0.25, thresholds: guided})
		}
		try(c, nil, greed{batch: 0.25, thresholds: guided[2:]})
	}
}

// hold makes what a cut at a node holds the guide of the chains.
func (c *chainer) hold(tensors []int32) {
	c.held = make([]bool, len(c.size))
	for b, t := range c.tensor {
		_, c.held[b] = slices.BinarySearch(tensors, t)
	}
}

// seed returns a plan that makes anew all that is live across a step but not
// held by the cut, what is read next first: what is made for it serves the
// later ones. It ends early with what it has.
func (c *chainer) seed(at int32, spent func() bool) (plan makings) {
	type dropped struct{ buffer, next int32 }
	c.run(plan, true)
	var all []dropped
	for i := range c.size {
		t := int32(i)
		if c.until[t] < 0 || c.output[t] || c.held[t] {
			continue
		}
		before, after := c.around(t, at)
		if before >= 0 && after >= 0 && after>>1 != at {
			all = append(all, dropped{t, after >> 1})
		}
	}
	slices.SortFunc(all, func(a, b dropped) int {
		return cmp.Or(cmp.Compare(a.next, b.next), cmp.Compare(a.buffer, b.buffer))
	})
	last := int32(-1)
	for _, x := range all {
		if c.exhausted() || spent() {
			break
		}
		// On large graphs once a slot: an evaluation for each buffer is quadratic.
		if slot := x.next; len(c.order) <= maxSeeded || slot != last {
			c.run(plan, true)
			last = slot
		}
		before, after := c.around(x.buffer, c.first[at+1])
		if before < 0 || after < 0 || after&1 == 1 {
			continue // made anew already
		}
		slot := c.slot[after>>1]
		if found, ok := c.link(x.buffer, slot, c.first[at+1]-1, byCut); ok {
			for _, t := range found.adds {
				plan.add(newMaking(slot, t))
			}
		}
	}
	return plan
}

// maxSeeded is the number of nodes above which a seed is evaluated once a slot.
const maxSeeded = 3000
