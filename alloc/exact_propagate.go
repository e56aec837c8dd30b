package alloc

import (
	"cmp"
	"slices"
)

// propagate draws the consequences of changes in these sections. It returns
// false if one of them cannot be filled within the capacity; x.failed then
// explains why.
//
// In each section, floor + rem = load + wasted bytes. Placing a buffer on its
// floor wastes nothing, so x.why has to explain the waste alone. One visit per
// section is enough: propagateSection raises a floor only to the least offset of
// the section's unplaced buffers, which lifts none of them. propagateBoundaries
// does lift buffers, so their sections are visited again.
func (x *exact) propagate(changed hull) bool {
	for {
		for c := changed.lo; c < changed.hi; c++ {
			if x.rem[c] > 0 && !x.propagateSection(c) {
				return false
			}
		}
		if x.off.boundaries {
			return true
		}
		var ok bool
		if changed, ok = x.propagateBoundaries(changed); !ok {
			return false
		}
		if changed.hi == 0 {
			return true
		}
	}
}

// propagateSection raises the floor of a section to the least offset of its
// unplaced buffers. It returns false if they cannot be stacked within the capacity.
func (x *exact) propagateSection(c int32) bool {
	unplaced := x.members[c][:x.unplaced[c]]
	x.work += int64(len(unplaced))
	low, high := int64(never), int64(0)
	for _, b := range unplaced {
		low, high = min(low, x.least[b]), max(high, x.least[b])
	}
	if low > x.floor[c] {
		x.raise(c, low, x.explain(c))
	}
	switch {
	case x.floor[c]+x.rem[c] > x.capacity:
		x.failed = x.why[c]
	case high+x.rem[c] > x.capacity && !x.off.heads && !x.stackFits(unplaced, x.floor[c], x.rem[c], high):
		x.failed = x.explain(c)
	default:
		return true
	}
	return false
}

// explain returns the sections whose decisions explain the waste and the least
// offsets of a section.
func (x *exact) explain(c int32) hull {
	why := x.why[c]
	for _, b := range x.members[c][:x.unplaced[c]] {
		why = why.join(x.reason(x.source[b]))
	}
	return why
}

// stackFits reports whether these buffers, stacked from the floor upwards, can end
// within the capacity. They are jobs on one machine, and their least offsets are
// the release dates: the order of release minimizes the makespan. Only the idle
// time matters. A few rounds find it without a sort; each round adds the jobs that
// are released before the end of the previous round. Sorting took half the time
// of the whole search.
func (x *exact) stackFits(unplaced []int32, floor, rem, high int64) bool {
	end := floor
	for floor+rem <= x.capacity {
		done, next := floor, int64(never)
		for _, b := range unplaced {
			if x.least[b] <= end {
				done += x.size[b]
			} else {
				next = min(next, x.least[b])
			}
		}
		switch {
		case done >= high:
			return true
		case done > end:
			end = done
		default: // idle until the next release
			floor += next - end
			end = next
		}
	}
	return false
}

// boundary is the boundary between a section and the next. Some buffers end
// there, some begin there, the others cross.
//
//	┌─────────────┐ ← height where the two stacks are level again
//	│   crosses   │
//	├──────┬──────┤   left of the boundary: buffers that end there
//	│ ends │begins│   right of it: buffers that begin there
//	├──────┤      │
//	│ ends ├──────┘
//	└──────┘▒▒▒▒▒▒▒   floors
//
// Lemma: if the floors differ by more than the lower section can waste, a crossing buffer
// lies no lower than the closing height. That is the least height that both stacks can reach:
// the floor plus the sizes of some ending buffers on the left, of some beginning buffers on
// the right. They may differ by the bytes that the lower stack's section can waste.
//
// Proof: take the lowest crossing buffer. Below it, the left section holds only
// ending buffers and waste, the right section only beginning buffers and waste.
//
// If the sections can waste no bytes, sums of a few sizes are seldom equal before
// the last, so the bound is strong.
type boundary struct {
	ends, begins         []sum // over all subsets, ascending; nil if there are too many
	endsLeft, beginsLeft uint8 // bit sets of the unplaced buffers
}

// sum is the total size of a set of buffers.
type sum struct {
	bytes int64
	of    uint8 // a bit per buffer
}

// maxAtBoundary is how many buffers may end, and how many may begin, at a boundary
// that is used: n of them have 2^n sums.
const maxAtBoundary = 6

// findBoundaries lists the sums at each boundary.
func (x *exact) findBoundaries() {
	for c := range x.boundaries[:max(1, len(x.boundaries))-1] {
		var ends, begins []int32
		for _, b := range x.members[c] {
			if x.hi[b] == int32(c)+1 {
				ends = append(ends, b)
			}
		}
		for _, b := range x.members[c+1] {
			if x.lo[b] == int32(c)+1 {
				begins = append(begins, b)
			}
		}
		if len(ends) <= maxAtBoundary && len(begins) <= maxAtBoundary {
			x.boundaries[c] = boundary{x.sums(ends, x.ending), x.sums(begins, x.starting), 1<<len(ends) - 1, 1<<len(begins) - 1}
		}
	}
}

// sums returns the sums of all subsets of some buffers, and gives each buffer its bit.
func (x *exact) sums(some []int32, bits []uint8) []sum {
	sums := []sum{{}}
	for k, b := range some {
		bits[b] = 1 << k
		for _, s := range sums {
			sums = append(sums, sum{s.bytes + x.size[b], s.of | 1<<k})
		}
	}
	slices.SortFunc(sums, func(a, b sum) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.of, b.of))
	})
	return sums
}

// togglePlaced switches b between placed and unplaced at both of its boundaries.
func (x *exact) togglePlaced(b int32) {
	x.boundaries[x.hi[b]-1].endsLeft ^= x.ending[b]
	if x.lo[b] > 0 {
		x.boundaries[x.lo[b]-1].beginsLeft ^= x.starting[b]
	}
}

// propagateBoundaries lifts the buffers that cross a boundary of these sections.
// It returns the sections of the lifted buffers, none if hi is 0, and false on a
// dead end.
func (x *exact) propagateBoundaries(in hull) (changed hull, ok bool) {
	n := int32(len(x.floor))
	changed = hull{n, 0}
	for c := max(0, in.lo-1); c < min(in.hi, n-1); c++ {
		low, high := c, c+1
		if x.floor[low] > x.floor[high] {
			low, high = high, low
		}
		if x.boundaries[c].ends == nil || x.crossing[c] == 0 || x.floor[high]+x.rem[low] <= x.capacity {
			continue // the lower section can waste the difference
		}
		height := x.closingHeight(c)
		x.work += int64(x.unplaced[c])
		for _, b := range x.members[c][:x.unplaced[c]] {
			if x.hi[b] > c+1 && x.least[b] < height {
				if !x.lift(b, height, n+c) {
					return changed, false
				}
				changed = changed.join(hull{x.lo[b], x.hi[b]})
			}
		}
	}
	return changed, true
}

// closingHeight returns the height of the lemma: the least height of a sum on
// either side for which the other side has a sum that is lower by no more than
// the other section can waste. It merges the two ascending lists of sums.
func (x *exact) closingHeight(c int32) int64 {
	s := &x.boundaries[c]
	type side struct {
		sums         []sum // that are still to come
		left         uint8
		floor, waste int64
		top          int64 // the height of the last sum that was passed
	}
	a := side{s.ends, s.endsLeft, x.floor[c], x.capacity - x.floor[c] - x.rem[c], -never}
	b := side{s.begins, s.beginsLeft, x.floor[c+1], x.capacity - x.floor[c+1] - x.rem[c+1], -never}
	for {
		for len(a.sums) > 0 && a.sums[0].of&^a.left != 0 {
			a.sums = a.sums[1:]
		}
		for len(b.sums) > 0 && b.sums[0].of&^b.left != 0 {
			b.sums = b.sums[1:]
		}
		if len(b.sums) == 0 || len(a.sums) > 0 && a.floor+a.sums[0].bytes < b.floor+b.sums[0].bytes {
			a, b = b, a
		}
		if len(b.sums) == 0 {
			return never
		}
		b.top = b.floor + b.sums[0].bytes
		b.sums = b.sums[1:]
		x.work++
		if b.top-a.top <= a.waste {
			return b.top
		}
	}
}

// reason returns the sections whose decisions explain a least offset, given its
// source: the reasons of the section, or of both sections beside a boundary.
func (x *exact) reason(source int32) hull {
	if c := source - int32(len(x.floor)); c >= 0 {
		return x.why[c].join(x.why[c+1])
	}
	return x.why[source]
}
