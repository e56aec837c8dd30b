package budget

import (
	"cmp"
	"slices"
)

// tryGuided calls try with plans guided by minimum cuts at the peak of the plain step:
// the cuts whose bytes are nearest to the limit. For each cut it starts once from the
// plan that recomputes all buffers the cut does not hold, unless the work is spent,
// and once from the empty plan.
func (s *Solver) tryGuided(c *chainer, limit int64, spent func() bool, try func(c *chainer, plan recomputeSet, how greedyOptions)) {
	if spent() || c.leavesOut("guided") {
		return
	}
	c.run(nil, false)
	at := c.at
	for _, x := range s.bound.hullOf(c.work, c.order[at]).near(limit) {
		if _, ok := s.bound.cut(x.alpha, x.beta); !ok {
			return
		}
		c.hold(s.bound.heldTensors())
		if !spent() && c.alike == nil && !c.leavesOut("guided seed") {
			try(c, c.seed(at, spent), greedyOptions{batch: 0.25, thresholds: guided})
		}
		try(c, nil, greedyOptions{batch: 0.25, thresholds: guided[2:]})
	}
}

// hold sets the buffers that a minimum cut holds, for byCut.
func (c *chainer) hold(tensors []int32) {
	c.held = make([]bool, len(c.size))
	for b, t := range c.tensor {
		_, c.held[b] = slices.BinarySearch(tensors, t)
	}
}

// seed returns a plan that recomputes every buffer that is live across a step but not
// held by the cut. It treats the buffers in the order of their next reads, because
// later chains can use what earlier ones recompute. If the work is spent, it returns
// the plan so far.
func (c *chainer) seed(at int32, spent func() bool) (plan recomputeSet) {
	type dropped struct{ buffer, next int32 }
	c.run(plan, true)
	var all []dropped
	for i := range c.size {
		t := int32(i)
		if c.until[t] < 0 || c.output[t] || c.held[t] {
			continue
		}
		before, after := c.around(t, newMoment(at, at))
		if before >= 0 && after >= 0 && after.moment() != newMoment(at, at) {
			all = append(all, dropped{t, after.moment().slot()})
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
		// A sweep for each buffer is quadratic, so large graphs get one for each slot.
		if slot := x.next; len(c.order) <= maxSeeded || slot != last {
			c.run(plan, true)
			last = slot
		}
		before, after := c.around(x.buffer, newMoment(at+1, 0))
		if before < 0 || after < 0 || after.makes() {
			continue // an earlier chain recomputes it
		}
		slot := after.moment().slot()
		if found, ok := c.chainFor(x.buffer, slot, c.first[at+1]-1, byCut); ok {
			for _, t := range found.adds {
				plan.add(newRecompute(slot, t))
			}
		}
	}
	return plan
}

// maxSeeded is the number of nodes above which seed sweeps once for each slot only.
const maxSeeded = 3000
