package alloc

import (
	"cmp"
	"slices"
)

// ObjectsBySize assigns the largest buffers first, each to the smallest object
// that is free throughout its lifetime, the newest of equal ones, else to a new
// object; so no object ever grows (Pisarchyk & Lee 2020, algorithm 2). Buffers
// of equal size go by lifetime, the longest first, then by index; the paper
// leaves that open, and its own figures need another order (docs/results/placement.md).
// O(n k log n) for k objects.
func ObjectsBySize(p Problem) Objects {
	h := newShelf(p)
	slices.SortFunc(h.ids, func(a, b int) int {
		return cmp.Or(
			-cmp.Compare(h.size[a], h.size[b]),
			-cmp.Compare(duration(p.Buffers[a]), duration(p.Buffers[b])),
			cmp.Compare(a, b))
	})
	for _, i := range h.ids {
		object := len(h.held) - 1 // the newest is the smallest
		for ; object >= 0; object-- {
			if _, free := h.slot(object, i); free {
				break
			}
		}
		h.put(i, object)
	}
	return h.objects
}
