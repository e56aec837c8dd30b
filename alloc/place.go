package alloc

import "math"

// place lays the buffers of s.ids one by one, each into the gap that pick
// chooses among those that its live neighbours leave, or on their top. Those
// with fixed offsets come first, whatever the order.
//
// A scan of all neighbours is quadratic where lifetimes are long. Here the bytes
// that they take are kept as runs, each the union of many buffers (see taken),
// and the cost follows the number of runs: near-linear where few holes are open
// at a step, as in networks, even if most buffers live long. At worst it is
// O(n²), when sizes do not repeat and lifetimes of every length leave thousands
// of holes: 20,000 such buffers take 2 to 3 s, 100,000 a minute or more, and
// [BestFit] is the strategy for them. Memory O(n log n + g√n), with g the most
// runs at one step. Beyond s.work gaps it gives up: see [Problem.work].
func place(s prepared, pick func(gaps []run, top, size, align int64) int64) Placement {
	a := Placement{Offsets: make([]int64, len(s.size))}
	t := newTaken(s.sections)
	put := func(i int, off int64) {
		t.take(s.lo[i], s.hi[i], run{off, off + s.size[i]})
		a.Offsets[i] = off
		a.Arena = max(a.Arena, off+s.size[i])
	}
	for i, off := range s.fixed {
		put(i, off)
	}
	for _, i := range s.ids {
		if _, ok := s.fixed[i]; ok {
			continue
		}
		gaps, top := t.between(s.lo[i], s.hi[i], s.size[i])
		if s.work > 0 && t.work > s.work {
			return Placement{}
		}
		put(i, pick(gaps, top, s.size[i], s.align[i]))
	}
	return a
}

// smallestGap returns the offset of the gap with the least room that is still
// enough, the lowest at a tie; without any, the top. Room is what is left of
// the gap from its first aligned offset on.
func smallestGap(gaps []run, top, size, align int64) int64 {
	best, least := roundUp(top, align), int64(math.MaxInt64)
	for _, gap := range gaps {
		off := roundUp(gap.lo, align)
		if room := gap.hi - off; room >= size && room < least {
			best, least = off, room
		}
	}
	return best
}

// lowestGap returns the lowest aligned offset at which there is room.
func lowestGap(gaps []run, top, size, align int64) int64 {
	for _, gap := range gaps {
		if off := roundUp(gap.lo, align); gap.hi-off >= size {
			return off
		}
	}
	return roundUp(top, align)
}
