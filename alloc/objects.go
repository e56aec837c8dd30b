package alloc

import (
	"cmp"
	"slices"
)

// Objects is the other way to share memory: not offsets in one arena, but whole
// blocks, the shared objects, each of which holds one buffer at a time (a GPU's
// textures, which cannot be cut). An object is as large as its largest buffer.
type Objects struct {
	Object []int   // by buffer: which object it lies in; -1 for one of 0 bytes
	Sizes  []int64 // by object, in bytes
	Total  int64   // bytes: the sum of Sizes
}

// ObjectBound returns the sum of the positional maxima: of each step's live
// sizes in descending order, the largest first one, the largest second one and
// so on (Pisarchyk & Lee 2020, section 4.1). The k-th largest object of any
// assignment is at least as large as the k-th of them, so none has fewer bytes.
// Sizes are rounded up; gaps and fixed offsets do not matter to objects.
// O(n log n).
func (p Problem) ObjectBound() int64 {
	var sum int64
	for _, size := range prepare(p).positionalMaxima() {
		sum += size
	}
	return sum
}

// positionalMaxima returns them in descending order. The k-th is the largest
// size of which k buffers, or larger ones, are live together: adding buffers by
// descending size, it is the one that makes k of them meet for the first time.
func (s prepared) positionalMaxima() []int64 {
	bySize := slices.Clone(s.ids)
	slices.SortFunc(bySize, func(a, b int) int { return -cmp.Compare(s.size[a], s.size[b]) })
	live := newPeaks(s.sections)
	live.reset(make([]int64, s.sections))
	var maxima []int64
	for _, i := range bySize {
		live.add(s.lo[i], s.hi[i], 1)
		if live.top() > int64(len(maxima)) {
			maxima = append(maxima, s.size[i])
		}
	}
	return maxima
}

// shelf is objects under construction: what lies in them so far.
type shelf struct {
	prepared
	buffers []Buffer
	objects Objects
	held    [][]lifetime // by object: of its buffers, in the order of time
}

// lifetime is the steps [first, last], both inclusive.
type lifetime struct{ first, last int }

func newShelf(p Problem) *shelf {
	h := &shelf{prepared: prepare(p), buffers: p.Buffers, objects: Objects{Object: make([]int, len(p.Buffers))}}
	for i := range h.objects.Object {
		h.objects.Object[i] = -1
	}
	return h
}

// slot returns how many buffers of an object begin before i begins, and whether
// i can lie among them. O(log n).
func (h *shelf) slot(object, i int) (at int, free bool) {
	held, b := h.held[object], &h.buffers[i]
	end := len(held)
	for at < end { // by hand, and lifetimes side by side: somas-bert_nezha by size improved 3 s of 10 s
		if mid := (at + end) / 2; held[mid].first < b.First {
			at = mid + 1
		} else {
			end = mid
		}
	}
	free = (at == 0 || held[at-1].last < b.First) && (at == len(held) || b.Last < held[at].first)
	return at, free
}

// put lays buffer i into an object where it has a free slot, or into a new one
// if object is -1. The object grows to its size.
func (h *shelf) put(i, object int) {
	if object < 0 {
		object = len(h.held)
		h.held = append(h.held, nil)
		h.objects.Sizes = append(h.objects.Sizes, 0)
	}
	at, _ := h.slot(object, i)
	h.held[object] = slices.Insert(h.held[object], at, lifetime{h.buffers[i].First, h.buffers[i].Last})
	h.objects.Object[i] = object
	grown := max(h.objects.Sizes[object], h.size[i])
	h.objects.Total += grown - h.objects.Sizes[object]
	h.objects.Sizes[object] = grown
}

// putTight lays buffer i into the smallest object that is large enough and free
// for its lifetime; if all that are free are smaller, into the largest of them,
// which grows; else into a new one (Pisarchyk & Lee 2020, algorithm 1). Of
// equal objects it takes the oldest. O(k log n) for k objects.
func (h *shelf) putTight(i int) {
	best := -1
	for object, size := range h.objects.Sizes {
		if best >= 0 {
			most := h.objects.Sizes[best]
			if most < h.size[i] && size <= most || most >= h.size[i] && (size < h.size[i] || size >= most) {
				continue
			}
		}
		if _, free := h.slot(object, i); free {
			best = object
		}
	}
	h.put(i, best)
}
