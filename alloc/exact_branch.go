package alloc

import (
	"cmp"
	"math"
	"slices"
)

// solve places the unplaced buffers of the sections. It splits the sections where no
// unplaced buffer crosses a boundary, and solves the parts independently, the
// narrowest first. If one part fails, all fail.
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

// branch picks a section of a niche and tries every buffer that can lie on its
// floor, then the case that none does.
//
// A niche is a maximal run of sections with equal floors and higher floors at
// both ends:
//
//	▒▒          ▒▒
//	▒▒┌────┐    ▒▒   the niche is sections 1-3
//	▒▒│ b  │    ▒▒   b lies on its floor
//	▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//	0  1  2  3  4    section
//
// A buffer whose least offset is the floor lives within the niche. Nothing can
// lie below it there, so its offset is final. The branches are exclusive and
// cover all placements.
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
	first := len(x.candidates)
	defer func() { x.candidates = x.candidates[:first] }()
	for _, b := range x.members[at][:x.unplaced[at]] {
		if x.least[b] == floor && x.firstOfTwins(b) {
			x.candidates = append(x.candidates, b)
		}
	}
	last := len(x.candidates)
	x.sortCandidates(x.candidates[first:last], at)
	next, why := x.nextHeight(at)
	all := x.why[at].join(why)
	mark := len(x.trail)
	for k := first; k < last; k++ {
		b := x.candidates[k]
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
		if x.skipFloor(at, next, why) {
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

// irrelevant reports whether the last failure is independent of the decision in
// these sections. Then the other branches fail for the same reason.
func (x *exact) irrelevant(decided hull) bool {
	return !x.off.backjumps && !x.failed.meets(decided)
}

// firstOfTwins reports whether b is the first unplaced of a set of identical
// buffers. They are interchangeable, so it is enough to try the first.
func (x *exact) firstOfTwins(b int32) bool {
	return x.off.twins || x.twin[b] < 0 || x.placed[x.twin[b]]
}

// choose returns the section with the fewest branches; at a tie, the one with
// the least slack. The choice is forced if there is at most one branch.
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
		niche := (lo == in.lo || x.rem[lo-1] == 0 || x.floor[lo-1] > floor) &&
			(hi == in.hi || x.rem[hi] == 0 || x.floor[hi] > floor) && floor <= lowest
		for c := lo; niche && c < hi; c++ {
			n, left := 0, x.capacity-floor-x.rem[c]
			if left > 0 {
				n = 1
			}
			x.work += int64(x.unplaced[c])
			for _, b := range x.members[c][:x.unplaced[c]] {
				if x.least[b] == floor && x.firstOfTwins(b) {
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

// nextHeight returns the least height at which the lowest unplaced buffer of a
// section can lie if it does not lie on the floor, and the sections that explain it.
//
// Lemma: it lies no lower than its least offset, and if that is the floor, no lower
// than the floor plus the size of its smallest unplaced neighbour outside the section.
//
//	┌──────────────┐
//	│      b       │   b rests on m, which is outside the section
//	└──────┬───────┤
//	       │   m   │
//	▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒   floor of the niche
//	  at     at+1      section
//
// Proof: push all buffers down until each rests on a floor or on another buffer; this
// keeps a placement valid. Let b be the lowest buffer of the section, with the floor
// as its least offset. Then b lies within the niche. If b is above the floor, it
// rests on a neighbour m, whose bottom is at the floor of the niche or above. m is not
// in the section, because b is the lowest buffer there.
func (x *exact) nextHeight(at int32) (next int64, why hull) {
	floor := x.floor[at]
	next, why = never, x.why[at]
	for _, b := range x.members[at][:x.unplaced[at]] {
		if x.least[b] > floor {
			next = min(next, x.least[b])
			why = why.join(x.reason(x.source[b]))
			continue
		}
		why = why.join(hull{x.lo[b], x.hi[b]})
		for _, m := range x.neighbours[b] {
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

// skipFloor raises the floor of one section, where no buffer is to lie on the old
// one, and propagates. It returns false on a dead end.
func (x *exact) skipFloor(at int32, floor int64, why hull) bool {
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
	return x.propagate(changed)
}

// sortCandidates sorts the candidates for the floor of a section: those whose
// hint is this offset come first, then, if x.fit is set, those that fit the niche
// best; ties go to the lower rank.
func (x *exact) sortCandidates(candidates []int32, at int32) {
	if len(candidates) < 2 {
		return
	}
	floor := x.floor[at]
	niche := hull{at, at + 1}
	if x.fit {
		for niche.lo > 0 && x.rem[niche.lo-1] > 0 && x.floor[niche.lo-1] == floor {
			niche.lo--
		}
		for int(niche.hi) < len(x.floor) && x.rem[niche.hi] > 0 && x.floor[niche.hi] == floor {
			niche.hi++
		}
	}
	slices.SortFunc(candidates, func(a, b int32) int {
		if hit := x.hint[a] == floor; hit != (x.hint[b] == floor) {
			if hit {
				return -1
			}
			return 1
		}
		if x.fit {
			if m, n := x.matches(a, niche), x.matches(b, niche); m != n {
				return n - m
			}
		}
		return cmp.Compare(x.rank[a], x.rank[b])
	})
}

// matches returns how well a buffer fits on the floor of a niche. It gets one point if it
// fills the width. It gets one for each end of the niche that it reaches and where its top
// would be level with the neighbouring floor. A packing without slack consists of such fits.
func (x *exact) matches(b int32, niche hull) int {
	n, top := 0, x.floor[niche.lo]+x.size[b]
	if x.lo[b] == niche.lo && x.hi[b] == niche.hi {
		n++
	}
	if c := niche.lo - 1; x.lo[b] == niche.lo && c >= 0 && x.rem[c] > 0 && x.floor[c] == top {
		n++
	}
	if c := niche.hi; x.hi[b] == niche.hi && int(c) < len(x.floor) && x.rem[c] > 0 && x.floor[c] == top {
		n++
	}
	return n
}
