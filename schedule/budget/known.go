package budget

import (
	"fmt"
	"slices"
)

// Plans that the caller has found by other means ([Options.Known]). The search can miss them: a plan in
// which many small buffers are made again, each of which saves little, lies far from the empty plan
// along every greedy path.

// addKnown adds a plan, and the order of its first runs as one to plan from.
func (s *Solver) addKnown(steps []int) error {
	order := make([]int32, 0, len(s.p.Nodes))
	ran := make([]bool, len(s.p.Nodes))
	for _, v := range steps {
		if v < 0 || v >= len(ran) {
			return fmt.Errorf("known plan: node %d: expected one of %d", v, len(ran))
		}
		if !ran[v] {
			ran[v] = true
			order = append(order, int32(v))
		}
	}
	if err := s.addLine(order); err != nil {
		return fmt.Errorf("known plan: %w", err)
	}
	l := s.lines[len(s.lines)-1]
	sweep := newSweep(l, &work{})
	set := l.repeated(steps, func(int32) bool { return true })
	sweep.run(set, false)
	x := entry{l.index, set, sweep.peak, sweep.extra}
	s.known = append(s.known, x)
	s.archive.put(x)
	return nil
}

// repeated returns the plan that makes the wanted buffers of the nodes that run again in steps anew
// there, as far as they may be. The first runs in steps are in the order of the line. A buffer is made
// anew in the slot of the next first run.
func (l *line) repeated(steps []int, wanted func(buffer int32) bool) (set recomputeSet) {
	step := make([]int32, len(l.order)) // node -> its step
	makes := make([][]int32, len(step)) // step -> its buffers that are wanted
	for i, v := range l.order {
		step[v] = int32(i)
	}
	for b, i := range l.maker {
		if i >= 0 && wanted(int32(b)) {
			makes[i] = append(makes[i], int32(b))
		}
	}
	next := int32(0)
	for _, v := range steps {
		if step[v] == next {
			next++
			continue
		}
		for _, b := range makes[step[v]] {
			if int(next) < len(l.order) && next <= l.until[b] {
				set = append(set, newRecompute(next, b))
			}
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// descendKnown plans for each limit of the grid, descending, from the known plans: above their peaks
// without the repetitions that the limit does not need, below with more.
func (s *Solver) descendKnown(all []*chainer, grid []int64) {
	for _, x := range s.known {
		c := all[x.line]
		c.own.put(x)
		last := x.set
		for _, limit := range grid {
			c.limit = limit
			plan := slices.Clone(last)
			if c.exhausted() || !c.greedy(&plan, greedyOptions{batch: 0.5, thresholds: plain, rounds: maxRounds}) {
				break
			}
			if limit < x.peak {
				last = slices.Clone(plan)
			}
			c.trim(&plan)
			c.record(&s.archive, plan)
		}
	}
}
