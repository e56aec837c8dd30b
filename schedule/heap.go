package schedule

// heap is a binary heap: pop returns the least item.
type heap[T any] struct {
	less  func(a, b T) bool
	items []T
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	i := len(h.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h.less(x, h.items[up]) {
			break
		}
		h.items[i] = h.items[up]
		i = up
	}
	h.items[i] = x
}

func (h *heap[T]) pop() T {
	least := h.items[0]
	end := len(h.items) - 1
	x := h.items[end]
	h.items = h.items[:end]
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		if down+1 < end && h.less(h.items[down+1], h.items[down]) {
			down++
		}
		if !h.less(h.items[down], x) {
			break
		}
		h.items[i] = h.items[down]
		i = down
	}
	if end > 0 {
		h.items[i] = x
	}
	return least
}
