package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The work of a plan for one limit where copies are planned alike: of starts, and of what follows them.
const (
	startWork  = 36_000_000
	singleWork = 22_000_000 // the part of it for batches and single candidates
	refineWork = 10_000_000
)

// planAlike is planFast where a stretch repeats. It plans in large batches from each order, then from the best ones
// guided by minimum cuts and by kinds of candidates, and refines the cheapest plan.
func (s *Solver) planAlike(w *work, all []*chainer, limit int64) {
	from := w.done
	spare := int64(startWork - singleWork)
	done := func() bool {
		return w.exhausted() || w.done-from > (startWork-spare)/s.sharedBy && (spare > 0 || s.archive.cheapest(limit) != nil)
	}
	try := func(c *chainer, plan recomputeSet, how greedyOptions) {
		if how.rounds = startRounds; how.kinds {
			how.rounds = maxRounds
		}
		c.limit = limit
		if done() {
			return
		}
		if c.greedy(&plan, how) {
			c.trim(&plan)
		}
		c.record(&s.archive, plan) // one that misses the limit may be the lowest
	}
	for _, x := range s.known {
		try(all[x.line], slices.Clone(x.set), greedyOptions{batch: 0.5, thresholds: plain})
	}
	for _, c := range all {
		try(c, nil, greedyOptions{batch: 0.5, thresholds: plain})
	}
	spare = 0
	cost := func(c *chainer) int64 {
		if x := c.own.cheapest(limit); x != nil {
			return x.cost
		}
		return math.MaxInt64
	}
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b *chainer) int { return cmp.Compare(cost(a), cost(b)) })
	var last entry
	for _, c := range ranked {
		if x := c.own.cheapest(limit); x != nil {
			if x.peak == last.peak && x.cost == last.cost {
				continue // most likely the same plan, since the orders differ little
			}
			last = *x
		}
		try(c, nil, greedyOptions{batch: 0.25, thresholds: plain, kinds: true})
	}
	s.tryGuided(ranked[0], limit, done, func(c *chainer, plan recomputeSet, how greedyOptions) {
		how.kinds = true
		try(c, plan, how)
	})
	s.refine(all, limit, refineWork/s.sharedBy)
}

// startRounds bounds the rounds of a search in batches: where these fail again and again, kinds are quicker.
const startRounds = 30

// refine looks for cheaper plans near the cheapest one for a limit.
func (s *Solver) refine(all []*chainer, limit, work int64) {
	x := s.archive.cheapest(limit)
	if x == nil || x.cost == 0 {
		return
	}
	c := all[x.line]
	c.limit, c.held = limit, nil
	pace := pacer{c.work, c.done, work, 1, 1}
	c.neighboursAlike(&s.archive, x.set, near, rand.New(rand.NewPCG(1, 2)), &pace)
	plan := slices.Clone(s.archive.cheapest(limit).set)
	c = all[s.archive.cheapest(limit).line]
	c.limit = limit
	c.prune(&plan, nil)
	c.record(&s.archive, plan)
}
