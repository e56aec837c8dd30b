package alloc

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// GreedyBySize places the largest buffers first. Each goes into the smallest gap
// between the live buffers placed before it that is large enough (the lowest of
// equal gaps), or on top of them (Pisarchyk & Lee 2020, algorithm 3). Buffers of
// equal size go by index. It takes O(n log n) beside the gaps.
//
// SmartPool's offline best-fit and onnxsim's memory plan have the same rule. Of
// equal sizes, SmartPool's code takes the one that starts first, which is the
// smaller index wherever buffers are listed in the order of time. Unlike its
// paper, SmartPool's code leaves the gap at the bottom empty if there is another
// gap above it.
func GreedyBySize(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(-cmp.Compare(s.size[a], s.size[b]), cmp.Compare(a, b))
	})
	return firstFit(s, smallestGap)
}

// GreedyByBreadth visits the steps by descending breadth, the sum of the sizes
// that are live there. At each step it places the live buffers that have no place
// yet, largest first, each into the smallest gap (Pisarchyk & Lee 2020, section
// 5.3). Ties go to the earlier step and to the smaller index. It takes O(n log n)
// beside the gaps.
//
// Only sections matter: the buffers that are live at any other step are part of a
// section with a larger breadth, and are placed by then.
func GreedyByBreadth(p Problem) Placement {
	s := prepare(p)
	rank := s.breadthRanks(1)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(rank[a], rank[b]),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return firstFit(s, smallestGap)
}

// GreedyByStart places the buffers in the order of their first steps, each at the
// lowest offset where it fits, like an allocator with a first-fit free list. Of
// buffers that start together the larger goes first, then the smaller index. It
// takes O(n log n) beside the gaps.
func GreedyByStart(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(p.Buffers[a].First, p.Buffers[b].First),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return firstFit(s, lowestGap)
}

// GreedyInOrder places the buffers in the order of their first steps, each into
// the smallest gap between the live buffers placed before it that is large enough,
// or on top of them. It is the greedy algorithm of Lee et al. 2019, applied to
// offsets as in Pisarchyk & Lee 2020, table 2. Of buffers that start together the
// smaller index goes first. It takes O(n log n) beside the gaps.
func GreedyInOrder(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	return firstFit(s, smallestGap)
}

// FirstFitByDuration places the longest lifetimes first, each at the lowest offset
// where it fits. Of equal lifetimes the larger size goes first, then the smaller
// index. [BestFit] has the same order, but packs bottom up. It takes O(n log n)
// beside the gaps.
func FirstFitByDuration(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			-cmp.Compare(duration(p.Buffers[a]), duration(p.Buffers[b])),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return firstFit(s, lowestGap)
}

// firstFit places the buffers one by one, in the order of s.ids. Each goes into
// the gap that pick chooses among those that its live neighbours leave, or on top
// of them. Fixed offsets are taken first, whatever the order. Beyond s.work gaps
// it returns no offsets: see [Problem.work].
//
// A scan of all neighbours is quadratic where lifetimes are long. Instead, the bytes they
// occupy are kept as ranges, each the union of many buffers (see occupancy), and the cost
// follows the number of ranges. It is near-linear where few gaps are open at a step, as in
// networks, even if most buffers live long. The worst case is O(n²), when sizes do not repeat
// and lifetimes of every length leave thousands of gaps: 20,000 such buffers take 2 to 3 s,
// 100,000 a minute or more. [BestFit] is the strategy for them. Memory is O(n log n + g√n)
// for at most g ranges at one step.
func firstFit(s prepared, pick func(gaps []byteRange, top, size, align int64) int64) Placement {
	a := Placement{Offsets: make([]int64, len(s.size))}
	o := newOccupancy(s.sections)
	put := func(i int, off int64) {
		o.add(s.lo[i], s.hi[i], byteRange{off, off + s.size[i]})
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
		gaps, top := o.gaps(s.lo[i], s.hi[i], s.size[i])
		if s.work > 0 && o.work > s.work {
			return Placement{}
		}
		put(i, pick(gaps, top, s.size[i], s.align[i]))
	}
	return a
}

// smallestGap returns the offset in the gap with the least room that is enough,
// the lowest of equal ones; if there is none, the top. The room of a gap is what
// is left from its first aligned offset on.
func smallestGap(gaps []byteRange, top, size, align int64) int64 {
	best, least := roundUp(top, align), int64(math.MaxInt64)
	for _, gap := range gaps {
		off := roundUp(gap.lo, align)
		if room := gap.hi - off; room >= size && room < least {
			best, least = off, room
		}
	}
	return best
}

// lowestGap returns the lowest aligned offset with enough room.
func lowestGap(gaps []byteRange, top, size, align int64) int64 {
	for _, gap := range gaps {
		if off := roundUp(gap.lo, align); gap.hi-off >= size {
			return off
		}
	}
	return roundUp(top, align)
}

// breadthRanks ranks the sections by load, largest first, and returns the best
// rank of each buffer's sections. Of equal loads the earlier section ranks first,
// or the later one if tie is -1.
func (s prepared) breadthRanks(tie int) []int32 {
	loads := s.loads()
	order := make([]int32, s.sections)
	for c := range order {
		order[c] = int32(c)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(loads[a], loads[b]), tie*cmp.Compare(a, b))
	})
	// A sparse table: best[k][c] is the best rank of the sections [c, c+2^k).
	best := [][]int32{make([]int32, s.sections)}
	for rank, c := range order {
		best[0][c] = int32(rank)
	}
	for width := 1; 2*width <= s.sections; width *= 2 {
		half := best[len(best)-1]
		row := make([]int32, s.sections-2*width+1)
		for c := range row {
			row[c] = min(half[c], half[c+width])
		}
		best = append(best, row)
	}
	rank := make([]int32, len(s.lo))
	for _, i := range s.ids {
		k := bits.Len32(uint32(s.hi[i]-s.lo[i])) - 1
		rank[i] = min(best[k][s.lo[i]], best[k][int(s.hi[i])-1<<k])
	}
	return rank
}
