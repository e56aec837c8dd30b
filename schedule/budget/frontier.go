package budget

import (
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
//	for each line, for each limit of the grid, from the largest down:
//	  greedy from nothing in several batches, and from the last limit's plan;
//	  guided by the corners of the cut around the limit; each pruned
//	for each limit: the plans of lower limits, pruned against it
//	for each limit: large neighbourhoods of its plan
func (s *Solver) fill(w *work) {
	s.filled = true
	var grid []int64
	for percent := int64(100 - gridStep); percent >= gridLast; percent -= gridStep {
		grid = append(grid, s.best/100*percent)
	}
	var all []*chainer
	for _, l := range s.lines {
		c := newChainer(newSweep(l, w))
		all = append(all, c)
		c.limit = s.best
		c.record(&s.archive, nil)
	}
	s.prove(w, all[0])
	grid = slices.DeleteFunc(grid, func(limit int64) bool {
		_, o := s.bound.at(limit)
		return o != nil
	})
	for _, c := range all {
		s.descend(c, grid)
	}
	for i := len(grid) - 1; i >= 0; i-- {
		s.thin(all, grid[i])
	}
	if rounds := s.rounds(); rounds > 0 {
		for i := len(grid) - 1; i >= 0; i-- {
			draw := rand.New(rand.NewPCG(uint64(i), 1))
			if x := s.archive.cheapest(grid[i]); x != nil && x.cost > 0 {
				c := all[x.line]
				c.limit = grid[i]
				c.neighbours(&s.archive, x.again, draw, rounds)
			}
		}
		for i := len(grid) - 1; i >= 0; i-- {
			s.thin(all, grid[i])
		}
	}
}

func (s *Solver) rounds() int {
	if s.opt.Effort == schedule.EffortMax {
		return 200
	}
	return 20
}

// descend plans along one line for each limit.
func (s *Solver) descend(c *chainer, grid []int64) {
	c.limit = s.best
	c.run(nil, false)
	at := c.at
	node := c.order[at]
	hull := s.bound.hullOf(c.work, node)
	var last makings
	for _, limit := range grid {
		if c.halted() {
			return
		}
		c.limit = limit
		c.held = nil
		best := archive{}
		try := func(plan makings, how greed) {
			how.rounds = maxRounds
			if c.greedy(&plan, how) {
				c.prune(&plan, nil)
				c.record(&s.archive, plan)
				c.record(&best, plan)
			}
		}
		for _, batch := range batches {
			if len(c.order) > maxSeeded && batch < 0.25 {
				break
			}
			try(nil, greed{batch: batch, thresholds: plain})
		}
		if last != nil {
			try(slices.Clone(last), greed{batch: 0.5, thresholds: plain})
		}
		for _, x := range hull.near(limit) {
			if _, ok := s.bound.cut(x.alpha, x.beta); !ok {
				return
			}
			c.hold(s.bound.heldTensors())
			try(c.seed(at), greed{batch: 0.25, thresholds: guided})
			try(nil, greed{batch: 0.25, thresholds: guided[2:]})
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

// thin prunes the plans of lower limits against a limit.
func (s *Solver) thin(lines []*chainer, limit int64) {
	var lower []entry
	for _, x := range s.archive {
		if x.peak <= limit && x.cost > 0 {
			lower = append(lower, x)
		}
	}
	for _, x := range lower {
		c := lines[x.line]
		if c.halted() {
			return
		}
		c.limit = limit
		plan := slices.Clone(x.again)
		c.prune(&plan, nil)
		c.record(&s.archive, plan)
	}
}

// prove finds hulls: of the node at the peak first, which is nearly always the
// best; then of the node of the highest load in each half, quarter, eighth of
// the order, as long as the effort lasts.
func (s *Solver) prove(w *work, c *chainer) {
	c.run(nil, false)
	most := w.done + int64(boundWork)
	if s.opt.Effort == schedule.EffortMax {
		most += 9 * int64(boundWork)
	}
	s.bound.add(w, c.order[c.at])
	load := slices.Clone(c.load)
	n := len(load)
	for parts := 2; parts <= n; parts *= 2 {
		for k := range parts {
			from, to := k*n/parts, (k+1)*n/parts
			at := from
			for i := from; i < to; i++ {
				if load[i] > load[at] {
					at = i
				}
			}
			if load[at] <= s.best/10 {
				continue
			}
			if w.done > most || w.halted() {
				return
			}
			s.bound.add(w, c.order[at])
		}
	}
}

// boundWork is how much work at default effort goes into the bound.
const boundWork = 30_000_000
