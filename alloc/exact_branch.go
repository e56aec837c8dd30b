package alloc

import (
	"cmp"
	"math"
	"slices"
)

// solve places what is unplaced in the sections. Where no unplaced buffer
// crosses they fall into parts, each solved alone, the narrowest first: the
// first that fails, fails all.
func (x *exact) solve(in hull) outcome {
	first := len(x.parts)
	defer func() { x.parts = x.parts[:first] }()
	from := in.lo
	for c := in.lo; c < in.hi; c++ {
		if x.rem[c] == 0 {
			if !x.off.splits {
				from = c + 1
			}
			continue
		}
		if x.crossing[c] == 0 && !x.off.splits {
			x.parts = append(x.parts, hull{from, c + 1})
			from = c + 1
		}
	}
	if x.off.splits && slices.ContainsFunc(x.rem[in.lo:in.hi], func(rem int64) bool { return rem > 0 }) {
		x.parts = append(x.parts, in)
	}
	last := len(x.parts)
	slices.SortFunc(x.parts[first:last], func(a, b hull) int {
		return cmp.Or(cmp.Compare(a.hi-a.lo, b.hi-b.lo), cmp.Compare(a.lo, b.lo))
	})
	for k := first; k < last; k++ {
		if out := x.branch(x.parts[k]); out != fits {
			return out
		}
	}
	return fits
}

// branch picks a section of a valley and tries all that can lie lowest in it:
// each buffer on the floor, and last, nothing on the floor.
//
// A valley is a longest run of equal floors with higher ones at both ends. A
// buffer whose least offset is the floor has its whole lifetime in the valley;
// nothing can ever come below it, and its offset is final. The branches exclude
// each other and leave nothing out.
func (x *exact) branch(in hull) outcome {
	x.nodes++
	if x.nodes > x.limit || x.work > x.budget || x.nodes%1024 == 0 && x.ctx.Err() != nil {
		return gaveUp
	}
	at, forced := x.choose(in)
	var key tableKey
	if !forced && !x.off.table {
		key = x.key(in)
		if why, known := x.known(key, in); known {
			x.failed = why
			return fails
		}
	}
	floor := x.floor[at]
	first := len(x.cands)
	defer func() { x.cands = x.cands[:first] }()
	for _, b := range x.members[at][:x.unplaced[at]] {
		if x.least[b] == floor && x.leads(b) {
			x.cands = append(x.cands, b)
		}
	}
	last := len(x.cands)
	x.arrange(x.cands[first:last], at)
	next, why := x.above(at)
	all := x.why[at].join(why)
	mark := len(x.trail)
	for k := first; k < last; k++ {
		b := x.cands[k]
		out := fails
		if x.lay(b, floor) {
			out = x.solve(in)
		}
		if out == fits {
			return fits
		}
		x.undo(mark)
		if out == gaveUp || x.irrelevant(hull{x.lo[b], x.hi[b]}) {
			return out
		}
		all = all.join(x.failed)
	}
	if next+x.rem[at] <= x.capacity {
		out := fails
		if x.leave(at, next, why) {
			out = x.solve(in)
		}
		if out == fits {
			return fits
		}
		x.undo(mark)
		if out == gaveUp || x.irrelevant(hull{at, at + 1}) {
			return out
		}
		all = all.join(x.failed)
	}
	x.failed = all
	if !forced && !x.off.table {
		x.learn(key, all)
	}
	return fails
}

// irrelevant says that the failure does not depend on a decision in these
// sections, so that the other branches would fail for the same reason.
func (x *exact) irrelevant(decided hull) bool {
	return !x.off.jumps && !x.failed.meets(decided)
}

// leads says that b is the first unplaced of those that are the same in all:
// their places can be swapped, so it is enough to try one.
func (x *exact) leads(b int32) bool {
	return x.off.twins || x.twin[b] < 0 || x.placed[x.twin[b]]
}

// choose returns the section with the fewest branches, of equal ones that with
// the least slack. It is forced if there is but one branch.
func (x *exact) choose(in hull) (at int32, forced bool) {
	lowest := int64(never)
	if x.lowest {
		for c := in.lo; c < in.hi; c++ {
			if x.rem[c] > 0 {
				lowest = min(lowest, x.floor[c])
			}
		}
	}
	branches, slack := math.MaxInt, int64(never)
	at = -1
	for lo := in.lo; lo < in.hi; {
		hi := lo + 1
		if x.rem[lo] == 0 {
			lo = hi
			continue
		}
		floor := x.floor[lo]
		for hi < in.hi && x.rem[hi] > 0 && x.floor[hi] == floor {
			hi++
		}
		valley := (lo == in.lo || x.rem[lo-1] == 0 || x.floor[lo-1] > floor) &&
			(hi == in.hi || x.rem[hi] == 0 || x.floor[hi] > floor) && floor <= lowest
		for c := lo; valley && c < hi; c++ {
			n, left := 0, x.capacity-floor-x.rem[c]
			if left > 0 {
				n = 1
			}
			x.work += int64(x.unplaced[c])
			for _, b := range x.members[c][:x.unplaced[c]] {
				if x.least[b] == floor && x.leads(b) {
					n++
				}
			}
			if n < branches || n == branches && left < slack {
				at, branches, slack = c, n, left
				if n <= 1 && !x.off.forced {
					return at, true
				}
			}
		}
		lo = hi
	}
	return at, false
}

// above returns the least height at which the lowest unplaced buffer of a
// section can lie if none lies on the floor, and what explains that.
//
// Push all buffers down until each rests on the ground or on another. One that
// could lie on the floor rests on a buffer that is live together with it but
// not in this section, for there it is the lowest.
func (x *exact) above(at int32) (next int64, why hull) {
	floor := x.floor[at]
	next, why = never, x.why[at]
	for _, b := range x.members[at][:x.unplaced[at]] {
		if x.least[b] > floor {
			next = min(next, x.least[b])
			why = why.join(x.reason(x.witness[b]))
			continue
		}
		why = why.join(hull{x.lo[b], x.hi[b]})
		for _, m := range x.meets[b] {
			if floor+x.size[m] >= next {
				break
			}
			if !x.placed[m] && (at < x.lo[m] || x.hi[m] <= at) {
				next = floor + x.size[m]
				break
			}
		}
	}
	return next, why
}

// leave raises the floor of one section, and draws the consequences.
func (x *exact) leave(at int32, floor int64, why hull) bool {
	x.raise(at, floor, why)
	changed := hull{at, at + 1}
	for _, b := range x.members[at][:x.unplaced[at]] {
		if x.least[b] < floor {
			if !x.lift(b, floor, at) {
				return false
			}
			changed = changed.join(hull{x.lo[b], x.hi[b]})
		}
	}
	return x.settle(changed)
}

// arrange sorts the candidates for the floor of a section: those that hint at
// this offset, then those that fit the valley best if the arm wants it, then by
// rank.
func (x *exact) arrange(cands []int32, at int32) {
	if len(cands) < 2 {
		return
	}
	floor := x.floor[at]
	valley := hull{at, at + 1}
	if x.fit {
		for valley.lo > 0 && x.rem[valley.lo-1] > 0 && x.floor[valley.lo-1] == floor {
			valley.lo--
		}
		for int(valley.hi) < len(x.floor) && x.rem[valley.hi] > 0 && x.floor[valley.hi] == floor {
			valley.hi++
		}
	}
	slices.SortFunc(cands, func(a, b int32) int {
		if hit := x.hint[a] == floor; hit != (x.hint[b] == floor) {
			if hit {
				return -1
			}
			return 1
		}
		if x.fit {
			if m, n := x.matches(a, valley), x.matches(b, valley); m != n {
				return n - m
			}
		}
		return cmp.Compare(x.rank[a], x.rank[b])
	})
}

// matches counts how well a buffer fits on the floor of a valley: whether it
// fills its width, and at which ends it would be level with what is beside. A
// packing without slack is made of such fits.
func (x *exact) matches(b int32, valley hull) int {
	n, top := 0, x.floor[valley.lo]+x.size[b]
	if x.lo[b] == valley.lo && x.hi[b] == valley.hi {
		n++
	}
	if c := valley.lo - 1; x.lo[b] == valley.lo && c >= 0 && x.rem[c] > 0 && x.floor[c] == top {
		n++
	}
	if c := valley.hi; x.hi[b] == valley.hi && int(c) < len(x.floor) && x.rem[c] > 0 && x.floor[c] == top {
		n++
	}
	return n
}
