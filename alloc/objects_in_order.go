package alloc

import (
	"cmp"
	"slices"
)

// ObjectsInOrder assigns the buffers in the order of their first steps, each to
// the free object whose size is the closest to its own, smaller or larger; a
// smaller one grows. Without a free one it makes a new object (Lee et al. 2019,
// the greedy of TFLite's GPU delegate). Of a smaller and a larger object that
// are equally close it takes the larger; of equal larger ones the oldest, of
// equal smaller ones the newest; of buffers that start together the smaller
// index goes first. O(n k) for k objects.
func ObjectsInOrder(p Problem) Objects {
	h := newShelf(p)
	slices.SortFunc(h.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	for _, i := range h.ids {
		best, least := -1, int64(0)
		for object, held := range h.held {
			if held[len(held)-1].last >= p.Buffers[i].First {
				continue
			}
			waste := h.objects.Sizes[object] - h.size[i]
			grows := waste < 0
			if grows {
				waste = -waste
			}
			if best >= 0 {
				bestGrows := h.objects.Sizes[best] < h.size[i]
				if waste > least || waste == least && (grows && !bestGrows || !grows && !bestGrows) {
					continue
				}
			}
			best, least = object, waste
		}
		h.put(i, best)
	}
	return h.objects
}
