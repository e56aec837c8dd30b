package alloc

import (
	"cmp"
	"slices"
)

// GreedyBySize places the largest buffers first, each into the smallest gap
// that it fits between the live neighbours placed before it (the lowest of
// equal gaps), else on top of them (Pisarchyk & Lee 2020, algorithm 3). Buffers
// of equal size go by index. O(n log n) beside the gaps: see [place].
func GreedyBySize(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(-cmp.Compare(s.size[a], s.size[b]), cmp.Compare(a, b))
	})
	return place(s, smallestGap)
}
