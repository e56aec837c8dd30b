package indexed

import "slices"

// Lists holds many short lists in one slice.
type Lists struct {
	Start []int32
	Items []int32
}

// Of returns list i.
func (l Lists) Of(i int32) []int32 { return l.Items[l.Start[i]:l.Start[i+1]] }

// Add appends a list.
func (l *Lists) Add(items ...int32) {
	if len(l.Start) == 0 {
		l.Start = append(l.Start, 0)
	}
	l.Items = append(l.Items, items...)
	l.Start = append(l.Start, int32(len(l.Items)))
}

// Finish completes lists to which nothing may have been added.
func (l *Lists) Finish() Lists {
	if len(l.Start) == 0 {
		l.Start = []int32{0}
	}
	return *l
}

// Inverse returns for each of n items the lists that contain it, ascending.
func (l Lists) Inverse(n int) Lists {
	r := Lists{make([]int32, n+1), make([]int32, len(l.Items))}
	for _, v := range l.Items {
		r.Start[v+1]++
	}
	for v := range n {
		r.Start[v+1] += r.Start[v]
	}
	next := slices.Clone(r.Start)
	for i := range len(l.Start) - 1 {
		for _, v := range l.Of(int32(i)) {
			r.Items[next[v]] = int32(i)
			next[v]++
		}
	}
	return r
}

// MadeBy returns for each node the tensors that it makes.
func MadeBy(producer []int32, nodes int) Lists {
	l := Lists{Start: make([]int32, 1, len(producer)+1), Items: make([]int32, 0, len(producer))}
	for _, v := range producer {
		if v >= 0 {
			l.Items = append(l.Items, v)
		}
		l.Start = append(l.Start, int32(len(l.Items)))
	}
	return l.Inverse(nodes)
}

// Slices returns the lists as slices that can grow by themselves.
func (l Lists) Slices() [][]int32 {
	items := slices.Clone(l.Items)
	split := make([][]int32, len(l.Start)-1)
	for i := range split {
		split[i] = items[l.Start[i]:l.Start[i+1]:l.Start[i+1]]
	}
	return split
}

// Ascending returns 0, 1, ... n-1.
func Ascending(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// Resize returns n items of any value, from buf if it is long enough.
func Resize[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n, n+n/4)
	}
	return buf[:n]
}

// Zeroed returns n zeros, from buf if it is long enough.
func Zeroed[T any](buf []T, n int) []T {
	buf = Resize(buf, n)
	clear(buf)
	return buf
}

// Heap is a binary heap: Pop returns the least item.
type Heap[T any] struct {
	Less  func(a, b T) bool
	Items []T
}

// Push adds an item.
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

// Pop takes the least item. There must be one.
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
