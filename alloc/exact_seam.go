package alloc

import (
	"cmp"
	"slices"
)

// seam is the boundary between a section and the next. Some buffers end there,
// some begin there, and the others cross. Those that end and those that begin
// fill the same holes between those that cross. So once a hole is open on one
// side, nothing that crosses lies lower than where it can close: where bytes of
// what ends and bytes of what begins come to one height, with no more waste
// than the two sections can bear. Where they can bear none, the sums of a few
// sizes seldom meet before the last.
type seam struct {
	ends, begins         []sum // of all sets, ascending; none if there are too many
	endsLeft, beginsLeft uint8 // the unplaced
}

// sum is the bytes of a set of buffers.
type sum struct {
	bytes int64
	of    uint8 // a bit for each
}

// mostAtSeam is how many buffers may end, and how many begin, at a seam whose
// sums are kept: there are 2^most of them.
const mostAtSeam = 6

// sew finds the seams.
func (x *exact) sew() {
	for c := range x.seams[:max(1, len(x.seams))-1] {
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
		if len(ends) <= mostAtSeam && len(begins) <= mostAtSeam {
			x.seams[c] = seam{x.sums(ends, x.ending), x.sums(begins, x.starting), 1<<len(ends) - 1, 1<<len(begins) - 1}
		}
	}
}

// sums returns the sums of all sets of some buffers, and gives each its bit.
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

// flip marks b as placed or as unplaced at both of its seams.
func (x *exact) flip(b int32) {
	x.seams[x.hi[b]-1].endsLeft ^= x.ending[b]
	if x.lo[b] > 0 {
		x.seams[x.lo[b]-1].beginsLeft ^= x.starting[b]
	}
}

// settleSeams lifts what crosses seams at or beside these sections. It returns
// the sections of what it lifted, none if hi is 0.
func (x *exact) settleSeams(in hull) (changed hull, ok bool) {
	n := int32(len(x.floor))
	changed = hull{n, 0}
	for c := max(0, in.lo-1); c < min(in.hi, n-1); c++ {
		low, high := c, c+1
		if x.floor[low] > x.floor[high] {
			low, high = high, low
		}
		if x.seams[c].ends == nil || x.crossing[c] == 0 || x.floor[high]+x.rem[low] <= x.capacity {
			continue // the lower one can waste what is between
		}
		height := x.closes(c)
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

// closes returns the least height at which the open hole of a seam can close:
// the least sum on either side that has one on the other which is lower by no
// more than may be wasted there.
func (x *exact) closes(c int32) int64 {
	s := &x.seams[c]
	type side struct {
		sums         []sum // not yet passed
		left         uint8
		floor, waste int64
		top          int64 // of the highest sum passed
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

// reason explains a least offset, given its witness: for a seam the sections on
// either side, with what explains their waste.
func (x *exact) reason(witness int32) hull {
	if c := witness - int32(len(x.floor)); c >= 0 {
		return x.why[c].join(x.why[c+1])
	}
	return x.why[witness]
}
