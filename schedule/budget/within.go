package budget

import (
	"context"

	"github.com/onnxmem/onnxmem/schedule"
)

// A search for the smallest peak within some extra time. Above the least effort, it takes the
// lowest of the plans that serve all limits, so that more time never gives a larger peak. At
// [schedule.EffortFast], where each limit is planned separately, it bisects the limits.

// withinParts ends that bisection where that part of the best peak is left.
const withinParts = 256

// Within returns the smallest limit that it finds with a plan whose extra time fits: percent
// is that of a step without repeated runs, and a smaller one fits if a larger one does. It is
// the smallest peak of the given orders if nothing fits below it.
func (s *Solver) Within(ctx context.Context, fits func(percent float64) bool) int64 {
	if s.opt.Effort == schedule.EffortFast {
		return bisect(s.best, fits, func(limit int64) *Plan { return s.Solve(ctx, limit) })
	}
	s.fillOnce(ctx)
	return s.archive.within(s.best, fits, s.lines[0].plain, 0)
}

// Within is [Solver.Within] with swaps: of plans that swap, recompute, or do both.
func (s *Swapper) Within(ctx context.Context, fits func(percent float64) bool) int64 {
	best, plain := s.recomputeOnly.best, s.recomputeOnly.lines[0].plain
	if s.opt.Effort == schedule.EffortFast {
		return bisect(best, fits, func(limit int64) *Plan { return &s.Solve(ctx, limit).Plan })
	}
	s.Frontier(ctx, []int64{best - 1, 0}) // 0: no plan, so that all searches run
	peak := s.recomputeOnly.archive.within(best, fits, plain, 0)
	for i := range s.swapOnly {
		if x := &s.swapOnly[i]; x.peak < peak && fits(share(x.waiting, plain)) {
			peak = x.peak
		}
	}
	for i := range s.combined {
		peak = s.combined[i].solver.archive.within(peak, fits, plain, s.combined[i].waiting)
	}
	return peak
}

// within returns the smallest peak of the plans whose cost, with that of waiting, fits; best, if
// none is below.
func (a archive) within(best int64, fits func(percent float64) bool, plain, waiting int64) int64 {
	for _, x := range a {
		if x.peak < best && fits(share(x.cost+waiting, plain)) {
			return x.peak
		}
	}
	return best
}

// share returns a cost in per cent of a step without repeated runs.
func share(cost, plain int64) float64 {
	if plain <= 0 {
		return 0
	}
	return 100 * float64(cost) / float64(plain)
}

// bisect returns the smallest limit, to one part in withinParts of best, whose plan fits.
func bisect(best int64, fits func(percent float64) bool, plan func(limit int64) *Plan) int64 {
	low, high := int64(0), best
	for high-low > best/withinParts+1 {
		mid := low + (high-low)/2
		if p := plan(mid); p.Feasible == Found && fits(p.ExtraPercent) {
			high = p.PeakBytes
		} else {
			low = mid
		}
	}
	return high
}
