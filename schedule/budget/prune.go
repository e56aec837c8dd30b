package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// prune removes the recomputes that the plan does not need to stay within the limit,
// the most expensive first. This lowers the extra time by up to a third. With draw,
// the order is randomized. The plan must be within the limit, and stays so. It takes
// at most two sweeps for each recompute that needed does not rule out.
func (s *sweep) prune(plan *recomputeSet, draw *rand.Rand) {
	type weighed struct {
		recompute
		cost float64
	}
	all := make([]weighed, 0, len(*plan))
	for _, m := range *plan {
		var cost int64
		s.unit(m.buffer(), m.slot(), func(i int32) { cost += s.cost[i] })
		x := weighed{m, float64(cost)}
		if draw != nil {
			x.cost *= math.Exp(0.5 * draw.NormFloat64())
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(b.cost, a.cost) })
	s.run(*plan, true)
	var out []recompute
	for size := 1; len(all) > 0 && !s.exhausted(); {
		// Remove several at once while that works: of a plan for a much lower limit,
		// nearly all can go.
		out = out[:0]
		k := 0
		for ; k < len(all) && len(out) < size; k++ {
			if !s.needed(*plan, all[k].recompute) {
				out = append(out, all[k].recompute)
			}
		}
		for _, m := range out {
			plan.remove(m)
		}
		if len(out) == 0 || s.fits(*plan) {
			if len(out) > 0 {
				s.list()
			}
			all, size = all[k:], min(2*size, maxPruned)
			continue
		}
		for _, m := range out {
			plan.add(m)
		}
		s.run(*plan, true)
		if len(out) == 1 {
			all = all[k:]
		}
		size = 1
	}
}

// maxPruned bounds the number of recomputes that prune removes at once.
const maxPruned = 16

// needed reports whether a plan certainly exceeds the limit without the recompute m. The
// plan must have been swept with events. Without m, the older instance of the buffer
// is held up to the slot; only the buffers whose last readers no longer run there can
// be freed earlier. It takes O(positions in between) time, with a small constant.
func (s *sweep) needed(plan recomputeSet, m recompute) bool {
	t, slot := m.buffer(), m.slot()
	to := s.first[slot]
	before, _ := s.around(t, newMoment(slot, 0))
	if before < 0 {
		return false
	}
	from := s.place(before.moment()) + 1
	if from >= to {
		return false
	}
	s.after = append(s.after[:0], s.load[from:to]...)
	least := s.size[t]
	only := s.runsOnlyFor(plan, m)
	made := false
	for _, i := range only {
		made = made || i == s.maker[t]
		for _, x := range s.reads.of(i) {
			if x == t || s.output[x] {
				continue
			}
			// Without this read, the instance of x ends at its last event before the slot.
			events := s.events[x]
			k, _ := slices.BinarySearch(events, event(newMoment(slot, 0))<<1)
			if k == 0 || k < len(events) && s.outlasts(events[k:], slot, only) {
				continue
			}
			for j := max(from, s.place(events[k-1].moment())); j < to; j++ {
				s.after[j-from] -= s.size[x]
			}
		}
	}
	s.count((len(only) + 1) * int(to-from) / 16)
	if !made {
		return false // another recompute runs the maker in this slot anyway
	}
	// In-place pairs may lower the load at the first position, so it is not tested.
	for _, load := range s.after[min(1, len(s.after)):] {
		if load+least > s.limit {
			return true
		}
	}
	return false
}

// runsOnlyFor returns the nodes that run in the slot of m for no other recompute.
func (s *sweep) runsOnlyFor(plan recomputeSet, m recompute) []int32 {
	slot := m.slot()
	only := s.only[:0]
	s.unit(m.buffer(), slot, func(i int32) { only = append(only, i) })
	k, _ := slices.BinarySearch(plan, newRecompute(slot, 0))
	for ; k < len(plan) && plan[k].slot() == slot; k++ {
		if plan[k] != m {
			s.unit(plan[k].buffer(), slot, func(i int32) {
				if j := slices.Index(only, i); j >= 0 {
					only = slices.Delete(only, j, j+1)
				}
			})
		}
	}
	s.only = only
	return only
}

// outlasts reports whether an instance with the given later events is also read by a run
// that is not among those in a slot.
func (s *sweep) outlasts(events []event, slot int32, runs []int32) bool {
	for _, e := range events {
		if e.makes() {
			return false
		}
		if m := e.moment(); m.slot() != slot || !slices.Contains(runs, m.node()) {
			return true
		}
	}
	return false
}
