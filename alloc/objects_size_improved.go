package alloc

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// ObjectsBySizeImproved goes through the positional maxima, largest first (see
// [Problem.ObjectBound]). At each it assigns the buffers that are not larger
// than it, but larger than the next: again and again the buffer and the object
// with the fewest idle steps between the buffer and the nearest one in the
// object, and only if no object is free for any of them a buffer to a new one
// (Pisarchyk & Lee 2020, section 4.4, as in TFLite's GPU delegate). Of equally
// near ones the larger buffer goes first, then the smaller index, to the oldest
// object. O(m² + r k log n) for m buffers at one maximum, k objects, and r times
// that a buffer's turn came after the object nearest to it had been taken.
func ObjectsBySizeImproved(p Problem) Objects {
	h := newShelf(p)
	maxima := h.positionalMaxima()
	stage := make([]int, len(p.Buffers))
	for _, i := range h.ids {
		stage[i] = sort.Search(len(maxima), func(k int) bool { return maxima[k] < h.size[i] })
	}
	slices.SortFunc(h.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(stage[a], stage[b]), -cmp.Compare(h.size[a], h.size[b]), cmp.Compare(a, b))
	})
	for rest := h.ids; len(rest) > 0; {
		n := 1
		for n < len(rest) && stage[rest[n]] == stage[rest[0]] {
			n++
		}
		h.nearestFirst(rest[:n])
		rest = rest[n:]
	}
	return h.objects
}

// near is a buffer that waits and the object that it would take.
type near struct {
	buffer, object int    // -1: none is free
	idle           uint64 // steps from the nearest buffer in the object
	lost           bool   // another has taken it: idle is the least that is possible
}

// nearestFirst assigns the buffers, which come in the order that decides ties.
func (h *shelf) nearestFirst(ids []int) {
	waiting := make([]near, len(ids))
	for k, i := range ids {
		waiting[k] = h.nearest(i)
	}
	for len(waiting) > 0 {
		next := 0
		for k := range waiting {
			if waiting[k].idle < waiting[next].idle {
				next = k
			}
		}
		x := waiting[next]
		if x.lost {
			waiting[next] = h.nearest(x.buffer)
			continue
		}
		waiting = slices.Delete(waiting, next, next+1)
		h.put(x.buffer, x.object)
		h.update(waiting, x.buffer)
	}
}

// nearest finds the object for buffer i. O(k log n) for k objects.
func (h *shelf) nearest(i int) near {
	best := near{buffer: i, object: -1, idle: math.MaxUint64}
	for object, held := range h.held {
		at, free := h.slot(object, i)
		if !free {
			continue
		}
		if at > 0 {
			best.offer(object, idle(held[at-1].last, h.buffers[i].First))
		}
		if at < len(held) {
			best.offer(object, idle(h.buffers[i].Last, held[at].first))
		}
	}
	return best
}

func (n *near) offer(object int, idle uint64) {
	if idle < n.idle || idle == n.idle && object < n.object && !n.lost {
		n.object, n.idle, n.lost = object, idle, false
	}
}

// idle returns the steps from the end of one buffer to the begin of another.
func idle(last, first int) uint64 { return uint64(first) - uint64(last) }

// update takes in that buffer i has been put: only for buffers that lie wholly
// between its neighbours in the object has anything changed.
func (h *shelf) update(waiting []near, i int) {
	object := h.objects.Object[i]
	held := h.held[object]
	at, _ := h.slot(object, i)
	from, to := math.MinInt, math.MaxInt
	if at > 0 {
		from = held[at-1].last + 1
	}
	if at+1 < len(held) {
		to = held[at+1].first - 1
	}
	for k := range waiting {
		w := &waiting[k]
		switch b := &h.buffers[w.buffer]; {
		case b.First < from || to < b.Last:
		case b.Last < held[at].first:
			w.offer(object, idle(b.Last, held[at].first))
		case held[at].last < b.First:
			w.offer(object, idle(held[at].last, b.First))
		case w.object == object:
			w.lost = true
		}
	}
}
