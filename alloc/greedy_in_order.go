package alloc

import (
	"cmp"
	"slices"
)

// GreedyInOrder places the buffers in the order of their first steps, each into
// the smallest gap that it fits between the live neighbours placed before it,
// else on top of them: the greedy of Lee et al. 2019, with offsets, as Pisarchyk
// & Lee 2020, table 2, have it. Of those that start together the smaller index
// goes first. O(n log n) beside the gaps: see [place].
func GreedyInOrder(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	return place(s, smallestGap)
}
