package alloc

import (
	"cmp"
	"slices"
)

// FirstFitByDuration places the buffers that live longest first, each at the
// lowest offset where it fits. Of equal lifetimes the larger size goes first,
// then the smaller index. [BestFit] has the same order, but lays the buffers
// bottom up. O(n log n) beside the gaps: see [place].
func FirstFitByDuration(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			-cmp.Compare(duration(p.Buffers[a]), duration(p.Buffers[b])),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return place(s, lowestGap)
}
