package indexed

// heap is a binary heap: pop returns the least item.
type Heap[T any] struct {
	Less  func(a, b T) bool
	Items []T
}

func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	i := len(h.Items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h.Less(x, h.Items[up]) {
			break
		}
		h.Items[i] = h.Items[up]
		i = up
	}
	h.Items[i] = x
}

func (h *Heap[T]) Pop() T {
	least := h.Items[0]
	end := len(h.Items) - 1
	x := h.Items[end]
	h.Items = h.Items[:end]
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		if down+1 < end && h.Less(h.Items[down+1], h.Items[down]) {
			down++
		}
		if !h.Less(h.Items[down], x) {
			break
		}
		h.Items[i] = h.Items[down]
		i = down
	}
	if end > 0 {
		h.Items[i] = x
	}
	return least
}
