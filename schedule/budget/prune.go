package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// prune leaves out, one by one, the dearest first, what the limit does not need.
// It takes up to a third off the extra time. With a source of noise the order is
// blurred. The plan is within the limit before and after. At most an evaluation
// or two for each making that is not plainly needed.
func (s *sweep) prune(plan *makings, draw *rand.Rand) {
	type weighed struct {
		making
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
	var out []making
	for size := 1; len(all) > 0 && !s.exhausted(); {
		// Several at once while that works: where a plan of a much lower limit is
		// pruned, nearly all goes.
		out = out[:0]
		k := 0
		for ; k < len(all) && len(out) < size; k++ {
			if !s.needed(*plan, all[k].making) {
				out = append(out, all[k].making)
			}
		}
		for _, m := range out {
			plan.remove(m)
		}
		if len(out) > 0 {
			s.run(*plan, true)
		}
		if s.peak <= s.limit {
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

// maxPruned is how many makings prune leaves out at once at most.
const maxPruned = 16

// needed reports whether a plan that was swept with events is certain to break
// the limit without a making. Without it the older instance of the buffer is held
// up to the slot; what falls is at most what the nodes that no longer run there
// were the last to read. O(positions between), with little for each.
func (s *sweep) needed(plan makings, m making) bool {
	t, slot := m.buffer(), m.slot()
	to := s.first[slot]
	before, _ := s.around(t, to)
	if before < 0 {
		return false
	}
	from := before>>1 + 1
	if from >= to {
		return false
	}
	s.rise = append(s.rise[:0], s.load[from:to]...)
	least := s.size[t]
	gone := s.gone(plan, m)
	made := false
	for _, i := range gone {
		made = made || i == s.maker[t]
		for _, x := range s.reads.of(i) {
			if x == t || s.output[x] {
				continue
			}
			// x ends with its last read before its next making; it is freed back to
			// the event before the slot, or all the way if it was made in the slot.
			events := s.events[x]
			k, _ := slices.BinarySearch(events, to<<1)
			if k == 0 || k < len(events) && s.outlasts(events[k:], slot, gone) {
				continue
			}
			for j := max(from, events[k-1]>>1); j < to; j++ {
				s.rise[j-from] -= s.size[x]
			}
		}
	}
	s.count((len(gone) + 1) * int(to-from) / 16)
	if !made {
		return false // its maker runs in the slot all the same
	}
	// At the ends in-place pairs may come to hold: look between.
	for _, load := range s.rise[min(1, len(s.rise)):] {
		if load+least > s.limit {
			return true
		}
	}
	return false
}

// gone lists the nodes that run in a slot for the sake of one making alone.
func (s *sweep) gone(plan makings, m making) []int32 {
	slot := m.slot()
	gone := s.alone[:0]
	s.unit(m.buffer(), slot, func(i int32) { gone = append(gone, i) })
	k, _ := slices.BinarySearch(plan, newMaking(slot, 0))
	for ; k < len(plan) && plan[k].slot() == slot; k++ {
		if plan[k] != m {
			s.unit(plan[k].buffer(), slot, func(i int32) {
				if j := slices.Index(gone, i); j >= 0 {
					gone = slices.Delete(gone, j, j+1)
				}
			})
		}
	}
	s.alone = gone
	return gone
}

// outlasts reports whether an instance is read on beyond what is gone from a slot.
func (s *sweep) outlasts(events []int32, slot int32, gone []int32) bool {
	for _, e := range events {
		if e&1 == 1 {
			return false
		}
		if k := e >> 1; s.slot[k] != slot || !slices.Contains(gone, s.node[k]) {
			return true
		}
	}
	return false
}
