package budget

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// The archive is filled for limits that are gridStep per cent of the best peak apart,
// down to gridLast per cent.
const (
	gridStep = 5
	gridLast = 5
)

// deepGrid are further limits of the grid, in per cent, where a stretch repeats: so far down a step of the
// grid may take half as much time again.
var deepGrid = []int64{12, 9, 8, 7, 6}

// fill searches for plans on a grid of limits that depends on the problem alone. All
// plans go into the archive, which then serves any limit.
//
// First, known plans go down the grid by themselves (descendKnown). Where a stretch repeats,
// fillAlike does the rest at default effort. Otherwise, and at the greatest effort:
//
//  1. For the two best lines and each limit of the grid, descending: greedy plans,
//     guided by the cuts around the limit, from the plan of the previous limit, and
//     from the empty plan with several batches; each is pruned.
//  2. For each limit: the plans of lower limits, pruned against this limit.
//  3. Twice, for each limit: plans in orders adapted to its cheapest plan, then large
//     neighbourhood search near that plan.
//  4. Twice more the same, but farther from the plans, and starting from the cheapest
//     plans of two orders.
//  5. Below the lowest plan: greedy plans for limits that the grid leaves out (reach).
//
// The counted work is bounded. Work that one limit leaves unused goes to the next.
func (s *Solver) fill(w *work) {
	s.filled = true
	w.most = w.done + s.fillWork()
	grid := s.grid()
	all := s.chainers(w)
	s.proveGrid(w, all[0])
	grid = slices.DeleteFunc(grid, func(limit int64) bool {
		_, o := s.bound.at(limit)
		return o != nil
	})
	f := s.newFewer()
	if f == nil {
		s.planApart(all)
	}
	if len(grid) == 0 {
		s.reach(w, all)
		return
	}
	s.descendKnown(all, grid)
	if f != nil {
		if all = s.fillAlike(w, f, all, grid); s.opt.Effort != schedule.EffortMax {
			return
		}
		s.planApart(all)
	}
	lines := s.bestLines(all, grid)
	pace := pacer{w, w.done, s.effort(descendWork), len(lines) * len(grid), 0}
	for _, c := range lines {
		s.descend(c, grid, &pace)
	}
	s.rescue(w, all, grid)
	s.pruneLower(all, grid)
	adapted := make([]entry, len(grid))
	rounds := 2 * fillRounds
	if s.opt.NoBound {
		rounds = fillRounds // part of a larger search that shares the work
	}
	for round := range rounds {
		if round >= fillRounds && w.leavesOut("far neighbours") {
			break
		}
		pace = pacer{w, w.done, s.effort(adaptWork) / fillRounds, len(grid), 0}
		all = s.adapt(w, all, grid, adapted, &pace)
		s.pruneLower(all, grid)
		far := round / fillRounds
		pace = pacer{w, w.done, s.effort(neighbourWork) / fillRounds * int64(1+far), len(grid), 0}
		for i := len(grid) - 1; i >= 0; i-- {
			pace.next()
			if w.leavesOut("neighbours") {
				break
			}
			starts := s.starts(all, grid[i], 1+far)
			for k, x := range starts {
				c := all[x.line]
				c.limit, c.held = grid[i], nil
				stray := near
				if far > 0 && (round+k)%2 == 1 {
					stray = wide
				}
				c.neighbours(&s.archive, x.set, stray, rand.New(rand.NewPCG(uint64(i), uint64(1+far*round))), &pace)
			}
		}
		s.pruneLower(all, grid)
	}
	s.reach(w, all)
}

// fillWork bounds the work of fill.
func (s *Solver) fillWork() int64 {
	return 2 * s.effort(boundWork+descendWork+2*adaptWork+3*neighbourWork+reachWork)
}

// fillRounds is the number of rounds near the cheapest plans; as many more go farther.
// Near rounds alone get stuck: our folded ResNet-50 at 35 % of its peak costs 20.33 %
// with them alone, 19.45 % with both.
const fillRounds = 2

// starts returns the cheapest plan for a limit, followed by the cheapest plans of other
// orders: at most number plans in all.
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

// grid returns the limits for which the archive is filled, descending. Known plans with a smaller peak
// than all orders divide it: below the smallest of them, it goes down in steps of that one.
func (s *Solver) grid() (grid []int64) {
	if s.limits != nil {
		return slices.Clone(s.limits)
	}
	var percents []int64
	for percent := int64(100 - gridStep); percent >= gridLast; percent -= gridStep {
		percents = append(percents, percent)
	}
	if s.copies != nil {
		percents = append(percents, deepGrid...)
		slices.SortFunc(percents, func(a, b int64) int { return cmp.Compare(b, a) })
	}
	steps := func(of, above int64) {
		for _, percent := range percents {
			if limit := of/100*percent + of%100*percent/100; limit > above {
				grid = append(grid, limit)
			}
		}
	}
	least := s.best
	for _, x := range s.known {
		least = min(least, x.peak)
	}
	if least < s.best {
		steps(s.best, least)
		grid = append(grid, least)
	}
	steps(least, 0)
	return grid
}

// The work of the stages at default effort; the greatest effort has ten times as much.
// On very large graphs a single round may take more than its share, but fill ends at
// twice the sum in any case.
const (
	boundWork     = 30_000_000
	descendWork   = 400_000_000
	adaptWork     = 400_000_000 // for the near rounds
	neighbourWork = 200_000_000 // for the near rounds; far rounds have twice as much
	reachWork     = 50_000_000
)

// effort returns this solver's share of the work of a stage at its effort.
func (s *Solver) effort(work int64) int64 {
	if s.opt.Effort == schedule.EffortMax {
		work *= 10
	}
	return work / s.sharedBy
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

// chainers returns a chainer for each line, with the plain step swept.
func (s *Solver) chainers(w *work) (all []*chainer) {
	for _, l := range s.lines {
		c := newChainer(newSweep(l, w))
		c.limit = s.best
		c.run(nil, false)
		all = append(all, c)
	}
	return all
}

// bestLines returns the two lines with the best quick plans at a few limits. Orders of
// equal peak differ at the other steps, which matter once the limit is below the peak.
func (s *Solver) bestLines(all []*chainer, grid []int64) []*chainer {
	wanted := 2
	if all[0].leavesOut("second order") {
		wanted = 1
	}
	if len(all) <= wanted {
		return all
	}
	return s.rankLines(all, grid)[:wanted]
}

// rankLines returns the lines by the quality of a quick plan at three limits: first
// those that miss the fewest limits, then those of the least extra time.
func (s *Solver) rankLines(all []*chainer, grid []int64) []*chainer {
	type rank struct {
		*chainer
		none int
		cost int64
	}
	var ranks []rank
	for _, c := range all {
		r := rank{chainer: c}
		for _, k := range [3]int{len(grid) / 4, len(grid) / 2, len(grid) * 3 / 4} {
			var plan recomputeSet
			c.limit = grid[k]
			if c.greedy(&plan, greedyOptions{batch: 0.5, thresholds: plain, rounds: maxRounds}) {
				c.trim(&plan)
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

// descend plans in the order of one line for each limit of the grid, descending.
func (s *Solver) descend(c *chainer, grid []int64, pace *pacer) {
	var last recomputeSet
	for _, limit := range grid {
		pace.next()
		c.limit = limit
		best := archive{}
		try := func(c *chainer, plan recomputeSet, how greedyOptions) {
			if c.exhausted() || pace.spent() && len(best) > 0 {
				return
			}
			how.rounds = maxRounds
			if c.greedy(&plan, how) {
				c.trim(&plan)
				c.record(&s.archive, plan)
				c.record(&best, plan)
			}
		}
		try(c, nil, greedyOptions{batch: batches[0], thresholds: plain})
		if last != nil && !c.leavesOut("previous limit") {
			try(c, slices.Clone(last), greedyOptions{batch: 0.5, thresholds: plain})
		}
		s.tryGuided(c, limit, pace.spent, try)
		for _, batch := range batches[1:] {
			if c.leavesOut(batchName(batch)) {
				continue
			}
			try(c, nil, greedyOptions{batch: batch, thresholds: plain})
		}
		if x := best.cheapest(limit); x != nil {
			last = x.set
		}
	}
}

// rescue plans for the limits of the grid for which the orders of descend have no plan, from
// each order, until one has a plan.
func (s *Solver) rescue(w *work, all []*chainer, grid []int64) {
	if w.leavesOut("rescue") {
		return
	}
	for _, limit := range grid {
		for _, batch := range batches {
			for _, c := range all {
				if s.archive.cheapest(limit) != nil || c.exhausted() {
					break
				}
				var plan recomputeSet
				c.limit = limit
				if c.greedy(&plan, greedyOptions{batch: batch, thresholds: plain, rounds: maxRounds}) {
					c.trim(&plan)
					c.record(&s.archive, plan)
				}
			}
		}
	}
}

// reach looks for plans below the lowest one, down to the bound and no farther than the next
// limit of the grid: it bisects what lies between, and plans from each order at each half.
func (s *Solver) reach(w *work, all []*chainer) {
	if w.leavesOut("reach") {
		return
	}
	pace := pacer{w, w.done, s.effort(reachWork), 1, 1}
	high := s.archive.lowest()
	low := max(s.bound.least(), high-s.best/100*gridStep)
	for high-low > s.best/reachParts+1 && !pace.spent() {
		mid := low + (high-low)/2
		for _, batch := range batches {
			for _, c := range all {
				if s.archive.lowest() <= mid || w.exhausted() || pace.spent() {
					break
				}
				var plan recomputeSet
				c.limit = mid
				if c.greedy(&plan, greedyOptions{batch: batch, thresholds: plain, rounds: maxRounds}) {
					c.trim(&plan)
					c.record(&s.archive, plan)
				}
			}
		}
		if lowest := s.archive.lowest(); lowest <= mid {
			high = lowest
		} else {
			low = mid
		}
	}
}

// reachParts bounds the search below the lowest plan: it ends where that part of the best peak
// is left.
const reachParts = 1024

// near returns the corners next to a limit: up to two below it and one above.
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

// pruneLower prunes, against each limit of the grid, the plans of the next maxLower
// lower limits.
func (s *Solver) pruneLower(lines []*chainer, grid []int64) {
	s.pruneLowerFor(lines, grid, len(grid))
}

// pruneLowerFor does so for the first few limits.
func (s *Solver) pruneLowerFor(lines []*chainer, grid []int64, number int) {
	if lines[0].leavesOut("prune lower") {
		return
	}
	for i := number - 1; i >= 0; i-- {
		for k := i + 1; k < len(grid) && k <= i+maxLower; k++ {
			x := s.archive.cheapest(grid[k])
			if x == nil || x.cost == 0 {
				continue
			}
			c := lines[x.line]
			if c.exhausted() {
				return
			}
			c.limit = grid[i]
			plan := slices.Clone(x.set)
			c.trim(&plan)
			c.record(&s.archive, plan)
		}
	}
}

// maxLower is the number of lower limits whose plans pruneLower prunes.
const maxLower = 4
