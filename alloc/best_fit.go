package alloc

import (
	"cmp"
	"slices"
)

// BestFit takes buffers for rectangles, as wide as their lifetimes and as high
// as their sizes, whose place in time is given, and lays them bottom up: on the
// lowest plateau of what is laid so far, the leftmost of equal ones, the buffer
// of the longest lifetime among those that fit into its span. Where none fits
// the plateau is raised to the lower of its neighbours. This is the best-fit
// heuristic for strip packing (Burke, Kendall & Whitwell 2004), widest first and
// of equal widths the highest: here of equal lifetimes the larger size, then the
// smaller index. [StripPacking] is the same but for such ties. With fixed offsets
// there is no such line of tops: then the buffers go in that order, each to the
// lowest gap, or where that would take too long, above the fixed ones. O(n log n) to build the index of lifetimes, then O(√n) at most for
// each search in it, and O(n) searches; a million tangled lifetimes take 3 s.
func BestFit(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return ^uint64(s.size[i]) })
	sortBy(s.ids, func(i int) uint64 { return ^duration(p.Buffers[i]) })
	return layBottomUp(s)
}

// layBottomUp fills the lowest plateau with the first of s.ids that fits.
func layBottomUp(s prepared) Placement {
	line := newSkyline(int32(s.sections))
	a := Placement{Offsets: make([]int64, len(s.size))}
	if s.fixed != nil {
		if a := place(s, lowestGap); a.Offsets != nil {
			return a
		}
		s.ids = slices.DeleteFunc(s.ids, func(i int) bool {
			off, ok := s.fixed[i]
			if ok {
				a.Offsets[i] = off
				a.Arena = max(a.Arena, off+s.size[i])
			}
			return ok
		})
		line = newSkylineOn(s.fixedTops())
	}
	unplaced := newIndex(s)
	for range s.ids {
		at := line.lowest()
		rank := unplaced.first(at.lo, at.hi)
		for rank < 0 {
			line.raise(at)
			at = line.lowest()
			rank = unplaced.first(at.lo, at.hi)
		}
		unplaced.remove(rank)
		i := s.ids[rank]
		off := roundUp(at.height, s.align[i])
		line.lay(at, plateau{s.lo[i], s.hi[i], off + s.size[i]})
		a.Offsets[i] = off
		a.Arena = max(a.Arena, off+s.size[i])
	}
	return a
}

// fixedTops returns where the highest fixed buffer of each section ends.
func (s prepared) fixedTops() []int64 {
	ids := make([]int, 0, len(s.fixed))
	for i := range s.fixed {
		ids = append(ids, i)
	}
	top := func(i int) int64 { return s.fixed[i] + s.size[i] }
	slices.SortFunc(ids, func(i, j int) int { return cmp.Or(-cmp.Compare(top(i), top(j)), cmp.Compare(i, j)) })
	tops := make([]int64, s.sections)
	next := make([]int32, s.sections+1) // of a section: it, or past it if its top is known
	for c := range next {
		next[c] = int32(c)
	}
	for _, i := range ids {
		for c := open(next, s.lo[i]); c < s.hi[i]; c = open(next, c) {
			tops[c] = top(i)
			next[c] = c + 1
		}
	}
	return tops
}

// open follows next from c to the first that points to itself, and shortens the
// way for those who come after.
func open(next []int32, c int32) int32 {
	for next[c] != c {
		next[c] = next[next[c]]
		c = next[c]
	}
	return c
}

// duration returns one less than the steps of a lifetime. It cannot overflow.
func duration(b Buffer) uint64 { return uint64(b.Last) - uint64(b.First) }
