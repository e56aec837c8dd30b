package core

import (
	"cmp"
	"math/bits"
	"slices"
)

// Extent is a buffer of a pool as a rectangle of bytes and steps: bytes Offset to End-1, steps
// First to Last.
type Extent struct {
	Offset, End int64
	First, Last int
}

// Overlap reports buffers that share bytes at some step. It visits the steps and
// keeps the live buffers sorted by offset: as long as none of them overlap, a new
// one is compared only with its two neighbours. A buffer that overlaps is
// reported and left out. It takes O(n log n) time for any list of buffers.
func Overlap(all []Extent, report func(a, b int)) {
	offsets := make([]int64, len(all))
	for i := range all {
		offsets[i] = all[i].Offset
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)

	begin, end := make([]int, len(all)), make([]int, len(all))
	for i := range all {
		begin[i], end[i] = i, i
	}
	slices.SortFunc(begin, func(x, y int) int { return cmp.Or(all[x].First-all[y].First, x-y) })
	slices.SortFunc(end, func(x, y int) int { return cmp.Or(all[x].Last-all[y].Last, x-y) })

	live := newRanks(len(offsets))
	holder := make([]int, len(offsets)) // by rank: 1 + the live buffer
	rank := func(i int) int {
		r, _ := slices.BinarySearch(offsets, all[i].Offset)
		return r
	}
	gone := 0
	for _, i := range begin {
		for ; gone < len(end) && all[end[gone]].Last < all[i].First; gone++ {
			if r := rank(end[gone]); holder[r] == 1+end[gone] {
				holder[r] = 0
				live.clear(r)
			}
		}
		r := rank(i)
		other := holder[r]
		if lower := live.before(r); other == 0 && lower >= 0 && all[holder[lower]-1].End > all[i].Offset {
			other = holder[lower]
		}
		if upper := live.after(r); other == 0 && upper >= 0 && all[i].End > all[holder[upper]-1].Offset {
			other = holder[upper]
		}
		if other != 0 {
			report(other-1, i)
			continue
		}
		holder[r] = 1 + i
		live.set(r)
	}
}

// ranks is a set of small integers that finds the next and the previous member in
// a few steps: bit i of a level says that word i of the level below is not empty.
type ranks struct{ levels [][]uint64 }

func newRanks(n int) *ranks {
	r := &ranks{}
	for {
		n = (n + 63) / 64
		r.levels = append(r.levels, make([]uint64, max(n, 1)))
		if n <= 1 {
			return r
		}
	}
}

func (r *ranks) set(i int) {
	for _, words := range r.levels {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (r *ranks) clear(i int) {
	for _, words := range r.levels {
		words[i/64] &^= 1 << (i % 64)
		if words[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// before returns the largest member that is smaller than i, -1 if there is none.
func (r *ranks) before(i int) int {
	for at, words := range r.levels {
		if w := words[i/64] & (1<<(i%64) - 1); w != 0 {
			i = i/64*64 + 63 - bits.LeadingZeros64(w)
			for at--; at >= 0; at-- {
				i = i*64 + 63 - bits.LeadingZeros64(r.levels[at][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}

// after returns the smallest member that is larger than i, -1 if there is none.
func (r *ranks) after(i int) int {
	for at, words := range r.levels {
		if w := words[i/64] &^ (1<<(i%64) - 1) &^ (1 << (i % 64)); w != 0 {
			i = i/64*64 + bits.TrailingZeros64(w)
			for at--; at >= 0; at-- {
				i = i*64 + bits.TrailingZeros64(r.levels[at][i])
			}
			return i
		}
		i /= 64
	}
	return -1
}
