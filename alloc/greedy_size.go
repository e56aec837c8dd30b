package alloc

import (
	"cmp"
	"slices"
)

// GreedyBySize places the largest buffers first, each into the smallest gap
// that it fits between the live neighbours placed before it (the lowest of
// equal gaps), else on top of them (Pisarchyk & Lee 2020, algorithm 3). Buffers
// of equal size go by index. O(n log n) beside the gaps: see [place].
//
// SmartPool's offline best-fit and onnxsim's memory plan have the same rule. Of
// equal sizes SmartPool's code takes the one that starts first, which is the
// smaller index wherever buffers are listed in the order of time. It also leaves
// the gap at the bottom empty if there are others above it; its paper does not.
func GreedyBySize(p Problem) Placement {
	s := prepare(p)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(-cmp.Compare(s.size[a], s.size[b]), cmp.Compare(a, b))
	})
	return place(s, smallestGap)
}
