package alloc

import (
	"math"
	"math/bits"
)

// Boxing packs buffers of like sizes into rows, then lays the rows' buffers
// bottom up. It is the loose placement and the squeeze of idealloc (Lamprakos et
// al. 2025), after the boxing of Buchsbaum et al. 2003, corollary 15: sizes fall
// into classes within a quarter of each other; within a class any two that do
// not live together may share a row, and coloring the lifetimes gives as few
// rows as the most that do; rows are stacked, tall classes first. That placement
// is loose by up to the width of a class. The squeeze fills the lowest plateau
// with the buffer of the lowest row that fits into it. The recursive boxes of
// the papers, which bound the loss, are left out: this bounds nothing and costs
// O(n log n) beside the squeeze, for which see [BestFit]. Of a row the earlier
// start goes first, then the smaller index.
func Boxing(p Problem) Placement {
	s := prepare(p)
	sortBy(s.ids, func(i int) uint64 { return keyOf(p.Buffers[i].First) })
	row := colored(p, s)
	sortBy(s.ids, func(i int) uint64 { return uint64(row[i]) })
	sortBy(s.ids, func(i int) uint64 { return ^uint64(class(s.size[i])) })
	return layBottomUp(s)
}

// class returns the number of a size's class: four to each power of two.
func class(size int64) int {
	exp := bits.Len64(uint64(size)) - 1
	return 4*exp + int(uint64(size)<<(63-exp)>>61&3)
}

// colored returns the row of each buffer within its class. The ids come in the
// order of their starts. A row is free again after the last step of its buffer,
// and the one that has been free for longest is taken: one heap a class.
func colored(p Problem, s prepared) []int32 {
	row := make([]int32, len(s.size))
	busy := make([]plateaus, class(math.MaxInt64)+1) // by the last step; lo is the row
	for _, i := range s.ids {
		rows := &busy[class(s.size[i])]
		row[i] = int32(len(*rows))
		if len(*rows) > 0 && (*rows)[0].height < int64(p.Buffers[i].First) {
			row[i] = (*rows)[0].lo
			rows.pop()
		}
		rows.push(plateau{lo: row[i], height: int64(p.Buffers[i].Last)})
	}
	return row
}
