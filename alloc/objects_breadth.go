package alloc

import (
	"cmp"
	"slices"
)

// ObjectsByBreadth goes through the steps by descending breadth, which is the
// sum of the sizes live there, and assigns what is live there and has no object
// yet, largest first, each to the smallest free object that is large enough,
// else to the largest free one, which grows, else to a new one (Pisarchyk & Lee
// 2020, algorithm 1). The paper leaves ties open; here they fall to the later
// step and to the larger index, which gives its figures for the MobileNets.
// O(n k log n) for k objects.
func ObjectsByBreadth(p Problem) Objects {
	h := newShelf(p)
	turn := h.turns(-1)
	slices.SortFunc(h.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(turn[a], turn[b]),
			-cmp.Compare(h.size[a], h.size[b]),
			-cmp.Compare(a, b))
	})
	for _, i := range h.ids {
		h.putTight(i)
	}
	return h.objects
}
