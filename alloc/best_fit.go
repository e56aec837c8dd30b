package alloc

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// BestFit is the best-fit heuristic for strip packing (Burke, Kendall & Whitwell
// 2004). A buffer is a rectangle as wide as its lifetime and as high as its size,
// and its position in time is given. BestFit packs bottom up: it takes the lowest
// plateau of the skyline, the leftmost of equal ones, and places on it the buffer
// with the longest lifetime that fits within the plateau. If none fits, it raises
// the plateau to its lower neighbour. Of equal lifetimes the larger buffer goes
// first, then the smaller index.
//
// Fixed offsets leave no skyline. With them, the buffers go in the same order,
// each into the lowest gap; if that would take too long, they are packed on top of
// the fixed ones.
//
// The index of lifetimes takes O(n log n) to build. Then there are O(n) queries of
// at most O(√n) each; a million tangled lifetimes take 3 s.
func BestFit(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return ^uint64(s.size[i]) })
	sortBy(s.ids, func(i int) uint64 { return ^duration(p.Buffers[i]) })
	return packBottomUp(s)
}

// StripPacking is the best-fit heuristic as Sekiyama et al. 2018, section 3.2, use
// it for memory: [BestFit], but equal lifetimes go by index. This tie-break
// reproduces the figures of Pisarchyk & Lee 2020, table 2. It costs as much as
// BestFit.
func StripPacking(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return ^duration(p.Buffers[i]) })
	return packBottomUp(s)
}

// Boxing groups buffers of similar size into rows, then packs the buffers bottom
// up, in the order of their rows. These are the loose placement and the squeeze of
// idealloc (Lamprakos et al. 2025), after the boxing of Buchsbaum et al. 2003,
// corollary 15:
//
//   - Sizes fall into classes, four to each power of two.
//   - Within a class, buffers may share a row unless they are live together.
//     Colouring the lifetimes needs only as many rows as the class has buffers that
//     are live together.
//   - Rows are stacked, the largest classes first. The result is loose by up to the
//     width of a class.
//   - The squeeze fills the lowest plateau with the buffer of the lowest row that
//     fits within it. In a row, the earlier start goes first, then the smaller
//     index.
//
// The recursive boxes of the papers, which bound the loss, are left out, so
// Boxing guarantees no ratio. It takes O(n log n) beside the packing (see
// [BestFit]).
func Boxing(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return keyOf(p.Buffers[i].First) })
	row := rowsByClass(p, s)
	sortBy(s.ids, func(i int) uint64 { return uint64(row[i]) })
	sortBy(s.ids, func(i int) uint64 { return ^uint64(sizeClass(s.size[i])) })
	return packBottomUp(s)
}

// sizeClass returns the class of a size: there are four to each power of two.
func sizeClass(size int64) int {
	exp := bits.Len64(uint64(size)) - 1
	return 4*exp + int(uint64(size)<<(63-exp)>>61&3)
}

// rowsByClass returns the row of each buffer within its class. The ids are in the
// order of their starts. A row is free again after the last step of its buffer; of
// the free rows, the one that has been free for the longest time is used. Each
// class has a heap of rows.
func rowsByClass(p Problem, s prepared) []int32 {
	row := make([]int32, len(s.size))
	busy := make([]plateaus, sizeClass(math.MaxInt64)+1) // height is the last step, lo the row
	for _, i := range s.ids {
		rows := &busy[sizeClass(s.size[i])]
		row[i] = int32(len(*rows))
		if len(*rows) > 0 && (*rows)[0].height < int64(p.Buffers[i].First) {
			row[i] = (*rows)[0].lo
			rows.pop()
		}
		rows.push(plateau{lo: row[i], height: int64(p.Buffers[i].Last)})
	}
	return row
}

// packBottomUp fills the lowest plateau with the first of s.ids that fits within it.
func packBottomUp(s prepared) Placement {
	tops := newSkyline(int32(s.sections))
	a := Placement{Offsets: make([]int64, len(s.size))}
	if s.fixed != nil {
		if a := firstFit(s, lowestGap); a.Offsets != nil {
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
		tops = newSkylineOn(s.fixedTops())
	}
	unplaced := newIndex(s)
	for range s.ids {
		at := tops.lowest()
		rank := unplaced.firstWithin(at.lo, at.hi)
		for rank < 0 {
			tops.raise(at)
			at = tops.lowest()
			rank = unplaced.firstWithin(at.lo, at.hi)
		}
		unplaced.remove(rank)
		i := s.ids[rank]
		off := roundUp(at.height, s.align[i])
		tops.place(at, plateau{s.lo[i], s.hi[i], off + s.size[i]})
		a.Offsets[i] = off
		a.Arena = max(a.Arena, off+s.size[i])
	}
	return a
}

// fixedTops returns, by section, where the highest fixed buffer ends.
func (s prepared) fixedTops() []int64 {
	ids := make([]int, 0, len(s.fixed))
	for i := range s.fixed {
		ids = append(ids, i)
	}
	top := func(i int) int64 { return s.fixed[i] + s.size[i] }
	slices.SortFunc(ids, func(i, j int) int { return cmp.Or(-cmp.Compare(top(i), top(j)), cmp.Compare(i, j)) })
	tops := make([]int64, s.sections)
	next := make([]int32, s.sections+1) // union-find: leads to the next section without a top
	for c := range next {
		next[c] = int32(c)
	}
	for _, i := range ids {
		for c := find(next, s.lo[i]); c < s.hi[i]; c = find(next, c) {
			tops[c] = top(i)
			next[c] = c + 1
		}
	}
	return tops
}

// find follows next from c to the first section that leads to itself, and halves
// the path for later calls.
func find(next []int32, c int32) int32 {
	for next[c] != c {
		next[c] = next[next[c]]
		c = next[c]
	}
	return c
}

// duration returns one less than the number of steps of a lifetime. It cannot
// overflow.
func duration(b Buffer) uint64 { return uint64(b.Last) - uint64(b.First) }
