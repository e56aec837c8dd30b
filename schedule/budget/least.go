package budget

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/schedule"
)

// leastWork bounds the search for the smallest peak at fast effort, leastCuts from below the
// work on its bound, which depends on few cuts but must be tight.
const (
	leastWork = 20_000_000
	leastCuts = 1_000_000
)

// Least returns the cheapest plan that it finds with the smallest peak that it finds. The
// plan's Limit is that peak, which Solve and Frontier of an equal solver keep, too.
func (s *Solver) Least(ctx context.Context) *Plan {
	w := &work{ctx: ctx, most: math.MaxInt64, without: s.opt.without}
	switch {
	case len(s.p.Nodes) == 0:
	case s.opt.Effort == schedule.EffortFast:
		s.leastFast(w)
	case !s.filled:
		s.fill(w)
	}
	s.proveWays(w)
	s.spent += w.done
	p := s.plan(w, s.archive.lowest())
	p.raise(&s.way)
	return p
}

// leastFast looks for the smallest peak, then plans once more for that limit, to find a cheaper
// plan.
func (s *Solver) leastFast(w *work) {
	all := s.reachLeast(w, s.chainers(w))
	w.most = math.MaxInt64
	if limit := s.archive.lowest(); limit < s.best {
		s.planFast(w, all, limit)
		s.planRead(w, all, limit)
	}
}

// reachLeast looks for the smallest peak at fast effort, once for each solver. What it finds
// depends on the given orders alone, so that a limit that Least reaches is always kept.
func (s *Solver) reachLeast(w *work, all []*chainer) []*chainer {
	if s.reached {
		return all
	}
	s.reached = true
	s.proveLeast(w, all[0])
	others := s.archive
	s.archive = nil
	for _, c := range all {
		c.record(&s.archive, nil)
	}
	w.most = w.done + leastWork/s.sharedBy
	all = s.lower(w, all)
	for _, x := range others {
		s.archive.put(x)
	}
	return all
}

// proveLeast raises the floor of the bound. Its hulls are exact at their low ends alone, so they must
// not stand in the place of those for other limits.
func (s *Solver) proveLeast(w *work, c *chainer) {
	nodes := int64(len(s.p.Nodes))
	most := max(leastCuts, min(nodes*nodes/fastCuts, boundWork)) / s.sharedBy
	kept := s.bound
	s.bound = newBound(s.p, s.costs, s.rules, s.opt)
	s.bound.asked = []int64{kept.floor.Bytes}
	s.prove(w, c, s.bound.asked, most)
	if x := s.bound.highest(); x.Bytes > kept.floor.Bytes {
		kept.floor = x
	}
	s.bound = kept
}

// lower looks for plans below the lowest one. It plans for the bound itself first, and then
// bisects what lies between, from each order and from orders that suit the lowest plan.
// It records the plans that miss their limit, too: they may be the lowest.
func (s *Solver) lower(w *work, all []*chainer) []*chainer {
	low, high := s.bound.least(), s.archive.lowest()
	for mid := low; high > low && !w.exhausted(); mid = low + (high-low)/2 {
		for _, batch := range batches {
			for _, c := range all {
				if s.archive.lowest() <= mid || w.exhausted() {
					break
				}
				var plan recomputeSet
				c.limit = mid
				c.greedy(&plan, greedyOptions{batch: batch, thresholds: plain, rounds: maxRounds})
				c.record(&s.archive, plan)
			}
		}
		if s.archive.lowest() > mid {
			pace := pacer{w, w.done, w.most - w.done, 1, 0}
			all = s.adapt(w, all, []int64{mid}, make([]entry, 1), &pace)
		}
		if high = s.archive.lowest(); high > mid {
			low = mid
		}
		if high-low <= s.best/reachParts+1 {
			break
		}
	}
	return all
}
