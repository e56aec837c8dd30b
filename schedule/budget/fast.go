package budget

import (
	"fmt"
	"math"
	"slices"
)

// At fast effort the search for a limit ends after fastWork if it has found a plan,
// and after lastWork in any case. The bound's work is nodes²/fastCuts, but at most
// that of default effort; one cut costs about as much work as there are nodes.
const (
	fastWork = 3_500_000
	lastWork = 200_000_000
	fastCuts = 5

	// Where layers are alike, fewer of them are planned for a limit and for two beside it, that part of it away.
	besides = 12
)

// fast plans for each limit separately. Where that finds no plan, the search for the smallest peak
// may.
func (s *Solver) fast(w *work, limits []int64) {
	all := s.chainers(w)
	s.bound.asked = limits
	nodes := int64(len(s.p.Nodes))
	s.prove(w, all[0], limits, min(nodes*nodes/fastCuts, boundWork)/s.sharedBy)
	s.small = s.newFewer()
	for _, limit := range limits {
		_, o := s.bound.at(limit)
		if o != nil && len(limits) == 1 && s.small != nil && !s.reached && !s.lowTried {
			s.lowTried = true // to say what is possible
			least := s.bound.least()
			s.planFast(w, all, least+least/besides)
		}
		if limit < s.best && o == nil {
			s.planFast(w, all, limit)
			if s.archive.cheapest(limit) != nil {
				continue
			}
			if all = s.reachLeast(w, all); s.archive.cheapest(limit) != nil {
				s.planFast(w, all, limit)
			}
		}
	}
	for _, limit := range limits { // after reachLeast, which starts from the given orders alone
		all = s.planRead(w, all, limit)
	}
}

// planRead plans again, in the order that the cheapest plan for a limit has once it omits the
// runs whose results are not read before their node runs again. It returns all followed by the
// chainers of new orders. Such a node stands early in the order, and only late steps read it:
// in GPT-2's step in PyTorch, factors of gradients are computed in the forward pass. At 50 % of
// its peak this lowers the extra time from 16.66 to 14.07 % (lower bound 13.97).
func (s *Solver) planRead(w *work, all []*chainer, limit int64) []*chainer {
	if s.opt.NoBound || s.opt.KeepOrders || s.rules.overwrite(s.p) {
		return all
	}
	last := int64(math.MaxInt64)
	for range maxAdapted {
		x := s.archive.cheapest(limit)
		if x == nil || x.cost >= last || w.exhausted() {
			break
		}
		last = x.cost
		was := s.lines[x.line]
		steps := was.unroll(x.set)
		read := s.read(steps)
		if len(read) == len(steps) {
			break
		}
		var c *chainer
		c, all = s.chainerOf(w, all, s.firstRuns(read))
		now := c.line
		c.limit = limit
		for _, plan := range []recomputeSet{was.translate(x.set, read, now), nil} {
			if c.greedy(&plan, greedyOptions{batch: 0.5, thresholds: plain, rounds: maxRounds}) {
				c.trim(&plan)
				c.record(&s.archive, plan)
			}
		}
	}
	return all
}

// chainerOf returns the chainer of an order, and all chainers with it.
func (s *Solver) chainerOf(w *work, all []*chainer, order []int32) (*chainer, []*chainer) {
	for _, c := range all {
		if slices.Equal(c.order, order) {
			return c, all
		}
	}
	l := s.newLine(order)
	c := newChainer(newSweep(l, w))
	s.lines = append(s.lines, l)
	return c, append(all, c)
}

// planFast plans for one limit, from known plans first. Then it plans from each order in large batches, with
// at most half of the work. Then it plans guided by minimum cuts, from the order of
// the cheapest plan so far, and then from each order in other batches. On DenseNet-121
// at 80 % the guided plans lower the extra time from 4.70 to 3.57 % (lower bound
// 3.54). On GPT-2 at batch 1 and 60 % the choice of the order lowers it from 8.31 to
// 3.87 %. Without the other batches two of the training steps of our zoo have no plan for
// 75 % of their peaks.
func (s *Solver) planFast(w *work, all []*chainer, limit int64) {
	if s.copies != nil {
		w.most = w.done + lastWork/s.sharedBy
		if s.small == nil {
			s.planAlike(w, all, limit)
			return
		}
		s.fillFewer(w, s.small, all, []int64{limit + limit/besides, limit, limit - limit/besides})
		s.settle(w, all, limit)
		s.tighten(w, all, limit, 0)
		return
	}
	from, most := w.done, fastWork/s.sharedBy
	w.most = from + lastWork/s.sharedBy
	done := func(most int64) bool {
		return w.exhausted() || w.done-from > most && s.archive.cheapest(limit) != nil
	}
	try := func(c *chainer, plan recomputeSet, how greedyOptions) {
		how.rounds = maxRounds
		if done(most) {
			return
		}
		if c.greedy(&plan, how) {
			c.trim(&plan)
		}
		c.record(&s.archive, plan) // one that misses the limit may be the lowest
	}
	for _, x := range s.known {
		c := all[x.line]
		c.limit = limit
		try(c, slices.Clone(x.set), greedyOptions{batch: 0.5, thresholds: plain})
	}
	for i, batch := range [...]float64{0.5, 0.25, 0.1, 0} {
		for _, c := range all {
			c.limit = limit
			if i > 0 && w.leavesOut(batchName(batch)) {
				continue
			}
			if i > 0 || !done(most/2) {
				try(c, nil, greedyOptions{batch: batch, thresholds: plain})
			}
		}
		if x := s.archive.cheapest(limit); i == 0 && x != nil {
			s.tryGuided(all[x.line], limit, func() bool { return done(most) }, try)
		}
	}
}

// batches are the values for greedyOptions.batch, best first. plain are the thresholds
// without a minimum cut, guided those with one.
var (
	batches = []float64{0.25, 0.5, 0.1, 0}
	plain   = []float64{0, 0.6}
	guided  = []float64{0, 0.6, byCut}
)

// batchName is what Options.without calls a batch.
func batchName(batch float64) string { return fmt.Sprint("batch ", batch) }

const maxRounds = 4000

// record evaluates a plan and puts it into an archive and into the line's own.
func (s *sweep) record(a *archive, plan recomputeSet) {
	s.run(plan, false)
	x := entry{s.index, plan, s.peak, s.extra}
	a.put(x)
	s.own.put(x)
}
