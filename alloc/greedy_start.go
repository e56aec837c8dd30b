package alloc

import (
	"cmp"
	"slices"
)

// GreedyByStart places the buffers in the order of their first steps, each at
// the lowest offset where it fits: what an allocator with a first-fit free list
// does when it meets them one by one. Of those that start together the larger
// goes first, then the smaller index. O(n log n) beside the gaps: see [place].
func GreedyByStart(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(p.Buffers[a].First, p.Buffers[b].First),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return place(s, lowestGap)
}
