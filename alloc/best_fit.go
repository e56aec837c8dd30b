package alloc

// BestFit takes buffers for rectangles, as wide as their lifetimes and as high
// as their sizes, whose place in time is given, and lays them bottom up: on the
// lowest plateau of what is laid so far, the leftmost of equal ones, the buffer
// of the longest lifetime among those that fit into its span. Where none fits
// the plateau is raised to the lower of its neighbours. This is the best-fit
// heuristic for strip packing (Burke, Kendall & Whitwell 2004), widest first and
// of equal widths the highest: here of equal lifetimes the larger size, then the
// smaller index. [StripPacking] is the same but for such ties. With fixed offsets
// there is no such line of tops: then the buffers go in that order, each to the
// lowest gap. O(n log n) to build the index of lifetimes, then O(√n) at most for
// each search in it, and O(n) searches; a million tangled lifetimes take 3 s.
func BestFit(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return ^uint64(s.size[i]) })
	sortBy(s.ids, func(i int) uint64 { return ^duration(p.Buffers[i]) })
	return layBottomUp(s)
}

// layBottomUp fills the lowest plateau with the first of s.ids that fits.
func layBottomUp(s prepared) Placement {
	if s.fixed != nil {
		return place(s, lowestGap)
	}
	a := Placement{Offsets: make([]int64, len(s.size))}
	unplaced := newIndex(s)
	line := newSkyline(int32(s.sections))
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

// duration returns one less than the steps of a lifetime. It cannot overflow.
func duration(b Buffer) uint64 { return uint64(b.Last) - uint64(b.First) }
