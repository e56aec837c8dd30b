package budget

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// gridStep is the distance of the limits that the archive is filled for, in per
// cent of the best peak, and gridLast the last of them.
const (
	gridStep = 5
	gridLast = 5
)

// fill searches for plans on a grid of limits that depends on the problem alone:
// each found plan goes into the archive, which then serves any limit.
//
//	for the two most promising lines, for each limit of the grid, from the largest:
//	  greedy guided by the corners of the cut around the limit, from the plan of
//	  the limit before, and from nothing in several batches; each pruned
//	for each limit: the plans of lower limits, pruned against it
//	twice, for each limit: plans from orders that suit its plan, then large
//	neighbourhoods of its plan; and twice more, farther from the plans that two
//	orders have for it
//
// It is bounded by counted work: what one limit leaves, the next may use.
func (s *Solver) fill(w *work) {
	s.filled = true
	w.most = w.done + 2*s.effort(boundWork+descendWork+2*adaptWork+3*neighbourWork)
	grid := s.grid()
	all := s.chainers(w)
	s.prove(w, all[0], grid, s.effort(boundWork))
	grid = slices.DeleteFunc(grid, func(limit int64) bool {
		_, o := s.bound.at(limit)
		return o != nil
	})
	if len(grid) == 0 {
		return
	}
	lines := s.promising(all, grid)
	pace := pacer{w, w.done, s.effort(descendWork), len(lines) * len(grid), 0}
	for _, c := range lines {
		s.descend(c, grid, &pace)
	}
	s.thin(all, grid)
	adapted := make([]entry, len(grid))
	rounds := 2 * fillRounds
	if s.opt.NoBound {
		rounds = fillRounds // part of a larger search, with its own share of time
	}
	for round := range rounds {
		pace = pacer{w, w.done, s.effort(adaptWork) / fillRounds, len(grid), 0}
		all = s.adapt(w, all, grid, adapted, &pace)
		s.thin(all, grid)
		far := round / fillRounds
		pace = pacer{w, w.done, s.effort(neighbourWork) / fillRounds * int64(1+far), len(grid), 0}
		for i := len(grid) - 1; i >= 0; i-- {
			pace.next()
			starts := s.starts(all, grid[i], 1+far)
			for k, x := range starts {
				c := all[x.line]
				c.limit, c.held = grid[i], nil
				stray := near
				if far > 0 && (round+k)%2 == 1 {
					stray = wide
				}
				c.neighbours(&s.archive, x.again, stray, rand.New(rand.NewPCG(uint64(i), uint64(1+far*round))), &pace)
			}
		}
		s.thin(all, grid)
	}
}

// fillRounds is how many rounds stay near the cheapest plans; as many go farther.
// Rounds near alone end where they began: our folded ResNet-50 at 35 % of its peak
// costs 20.33 % so, 19.45 % with both.
const fillRounds = 2

// starts returns the cheapest plan for a limit, and up to a number in all those that
// were made along other orders.
func (s *Solver) starts(all []*chainer, limit int64, number int) (list []entry) {
	first := s.archive.cheapest(limit)
	if first == nil || first.cost == 0 {
		return nil
	}
	for _, c := range all {
		if x := c.own.cheapest(limit); x != nil && c.index != first.line {
			list = append(list, *x)
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.cost, b.cost) })
	return append([]entry{*first}, list[:min(len(list), number-1)]...)
}

// grid returns the limits that the archive is filled for, descending.
func (s *Solver) grid() (grid []int64) {
	for percent := int64(100 - gridStep); percent >= gridLast; percent -= gridStep {
		grid = append(grid, s.best/100*percent+s.best%100*percent/100)
	}
	return grid
}

// What the stages may do at default effort; at the greatest ten times as much. On
// very large graphs a single round may take more; twice the sum ends everything.
const (
	boundWork     = 30_000_000
	descendWork   = 400_000_000
	adaptWork     = 400_000_000 // of the rounds near the cheapest plans
	neighbourWork = 200_000_000 // the same; those that go farther take twice as much
)

func (s *Solver) effort(work int64) int64 {
	if s.opt.Effort == schedule.EffortMax {
		work *= 10
	}
	return work / s.among
}

// pacer divides work into equal shares.
type pacer struct {
	*work
	from, total int64
	shares      int
	begun       int
}

// next begins the next share.
func (p *pacer) next() { p.begun++ }

// spent reports whether the shares that have begun are used up.
func (p *pacer) spent() bool {
	return p.done-p.from > p.total/int64(p.shares)*int64(p.begun)
}

// chainers returns one for each line, the plain step swept.
func (s *Solver) chainers(w *work) (all []*chainer) {
	for _, l := range s.lines {
		c := newChainer(newSweep(l, w))
		c.limit = s.best
		c.run(nil, false)
		all = append(all, c)
	}
	return all
}

// promising picks two lines: a quick plan from each at a few limits says which.
// Orders of equal peak differ away from it, and that is where a limit will lie.
func (s *Solver) promising(all []*chainer, grid []int64) []*chainer {
	const wanted = 2
	if len(all) <= wanted {
		return all
	}
	return s.ranked(all, grid)[:wanted]
}

// ranked lists lines, the most promising first.
func (s *Solver) ranked(all []*chainer, grid []int64) []*chainer {
	type rank struct {
		*chainer
		none int
		cost int64
	}
	var ranks []rank
	for _, c := range all {
		r := rank{chainer: c}
		for _, k := range [3]int{len(grid) / 4, len(grid) / 2, len(grid) * 3 / 4} {
			var plan makings
			c.limit = grid[k]
			if c.greedy(&plan, greed{batch: 0.5, thresholds: plain, rounds: maxRounds}) {
				c.prune(&plan, nil)
				c.record(&s.archive, plan)
				r.cost += c.extra
			} else {
				r.none++
			}
		}
		ranks = append(ranks, r)
	}
	slices.SortStableFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.none, b.none), cmp.Compare(a.cost, b.cost))
	})
	var lines []*chainer
	for _, r := range ranks {
		lines = append(lines, r.chainer)
	}
	return lines
}

// descend plans along one line for each limit.
func (s *Solver) descend(c *chainer, grid []int64, pace *pacer) {
	var last makings
	for _, limit := range grid {
		pace.next()
		c.limit = limit
		best := archive{}
		try := func(c *chainer, plan makings, how greed) {
			if c.exhausted() || pace.spent() && len(best) > 0 {
				return
			}
			how.rounds = maxRounds
			if c.greedy(&plan, how) {
				c.prune(&plan, nil)
				c.record(&s.archive, plan)
				c.record(&best, plan)
			}
		}
		try(c, nil, greed{batch: batches[0], thresholds: plain})
		if last != nil {
			try(c, slices.Clone(last), greed{batch: 0.5, thresholds: plain})
		}
		s.guide(c, limit, pace.spent, try)
		for _, batch := range batches[1:] {
			try(c, nil, greed{batch: batch, thresholds: plain})
		}
		if x := best.cheapest(limit); x != nil {
			last = x.again
		}
	}
}

// near returns the corners on both sides of a limit and the one below.
func (h *hull) near(limit int64) []corner {
	if h == nil {
		return nil
	}
	i := 0
	for i < len(h.corners) && h.corners[i].bytes <= limit {
		i++
	}
	return h.corners[max(0, i-2):min(len(h.corners), i+1)]
}

// thin prunes the plans of some lower limits against each limit of the grid.
func (s *Solver) thin(lines []*chainer, grid []int64) {
	for i := len(grid) - 1; i >= 0; i-- {
		for k := i + 1; k < len(grid) && k <= i+maxThinned; k++ {
			x := s.archive.cheapest(grid[k])
			if x == nil || x.cost == 0 {
				continue
			}
			c := lines[x.line]
			if c.exhausted() {
				return
			}
			c.limit = grid[i]
			plan := slices.Clone(x.again)
			c.prune(&plan, nil)
			c.record(&s.archive, plan)
		}
	}
}

// maxThinned is how many limits down thin takes plans from.
const maxThinned = 4
