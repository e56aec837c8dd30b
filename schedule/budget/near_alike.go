package budget

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

const (
	nearPart   = 4   // planNear fills the archive for the limits of the grid that are at most that part of a limit away
	moreSeeds  = 100 // a second search near the plan has other random numbers: ViT-G's step at 5 % of its peak costs 25.29 % and not 25.52
	mostSingle = 3   // limits for which that is done: as many take the time of one archive for all, which the next one fills
)

// Single reports whether the next limit that is asked for by itself will be planned without an archive for all limits.
func (s *Solver) Single() bool {
	return s.opt.Single && s.opt.Effort == schedule.EffortDefault && !s.filled && s.copies != nil && !s.opt.NoBound &&
		s.copies.Count >= 2*keptCopies && len(s.asked) < mostSingle
}

// planNear plans one limit as fast effort does, and then as fillAlike does for all limits, but only for those of the grid
// that lie near it. On Llama-3-8B's step this takes a third of the time, and at most limits the plan is cheaper: the
// smaller problem has fewer limits to share its work. It reports whether it did so: not where the limit is impossible,
// or no copies can be left out.
func (s *Solver) planNear(w *work, limit int64) bool {
	first := newChainer(newSweep(s.lines[0], w))
	first.limit = s.best
	s.bound.asked = []int64{limit}
	s.prove(w, first, s.bound.asked, s.effort(boundWork))
	s.bound.asked = nil
	if _, o := s.bound.at(limit); o != nil {
		return false
	}
	s.setAsked(limit)
	s.planQuick(w, limit)
	f := s.newFewer()
	if f == nil {
		return false
	}
	all := s.chainers(w)
	grid := s.gridNear(limit)
	w.most = w.done + s.fillWork()
	s.fillFewer(w, f, all, grid)
	for _, l := range grid {
		s.settle(w, all, l)
		all = s.planRead(w, all, l)
	}
	i := slices.Index(grid, limit)
	s.pruneLowerFor(all, grid[i:], 1)
	s.tighten(w, all, limit, uint64(i))
	s.tightenNear(w, all, limit, uint64(i)+moreSeeds)
	return true
}

// gridNear returns a limit and those of the grid near it, descending, without those that are proven to be impossible.
func (s *Solver) gridNear(limit int64) []int64 {
	grid := append(s.grid(), limit)
	slices.Sort(grid)
	grid = slices.Compact(grid)
	slices.Reverse(grid)
	return slices.DeleteFunc(grid, func(l int64) bool {
		_, o := s.bound.at(l)
		return o != nil || l < limit-limit/nearPart || l > limit+limit/nearPart
	})
}
