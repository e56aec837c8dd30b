package ops

import (
	"math"
	"math/bits"

	"github.com/onnxmem/onnxmem/graph"
)

// Mono applies a non-decreasing function to a length: an exact length stays
// exact, a bound stays a bound. A negative result becomes 0.
func Mono(d graph.Dim, f func(n int64) int64) graph.Dim {
	n, ok := d.Max()
	if !ok {
		return graph.Unknown
	}
	n = max(f(n), 0)
	if d.Exact() {
		return graph.Dim(n)
	}
	return graph.AtMost(n)
}

// AddDims is the length of two axes joined end to end.
func AddDims(a, b graph.Dim) graph.Dim {
	if a == 0 {
		return b
	}
	if b == 0 {
		return a
	}
	return join(a, b, func(x, y int64) (int64, bool) { s := x + y; return s, s >= 0 })
}

// MulDims is the length of two axes merged into one.
func MulDims(a, b graph.Dim) graph.Dim {
	switch {
	case a == 0 || b == 0:
		return 0
	case a == 1:
		return b
	case b == 1:
		return a
	}
	return join(a, b, func(x, y int64) (int64, bool) {
		hi, lo := bits.Mul64(uint64(x), uint64(y))
		return int64(lo), hi == 0 && lo < math.MaxInt64-1
	})
}

func join(a, b graph.Dim, f func(x, y int64) (int64, bool)) graph.Dim {
	x, okX := a.Max()
	y, okY := b.Max()
	if !okX || !okY {
		return graph.Unknown
	}
	n, fits := f(x, y)
	switch {
	case !fits:
		return graph.Unknown
	case a.Exact() && b.Exact():
		return graph.Dim(n)
	default:
		return graph.AtMost(n)
	}
}

// countOf is the number of elements of a shape, as a length.
func countOf(shape []graph.Dim) graph.Dim {
	n := graph.Dim(1)
	for _, d := range shape {
		if d == 0 {
			return 0
		}
	}
	for _, d := range shape {
		n = MulDims(n, d)
	}
	return n
}

// Union is the type of a value that is either a or b: equal lengths stay,
// different ones become the larger as a bound, different ranks become unknown.
func Union(a, b graph.Type) graph.Type {
	if a.Kind != b.Kind {
		return graph.Type{}
	}
	t := graph.Type{Kind: a.Kind}
	if a.Elem == b.Elem {
		t.Elem = a.Elem
	}
	if a.Of != nil && b.Of != nil {
		of := Union(*a.Of, *b.Of)
		t.Of = &of
	}
	if a.Ranked && b.Ranked && len(a.Shape) == len(b.Shape) {
		t.Ranked = true
		t.Shape = make([]graph.Dim, len(a.Shape))
		for i, d := range a.Shape {
			t.Shape[i] = unionDim(d, b.Shape[i])
		}
	}
	return t
}

func unionDim(a, b graph.Dim) graph.Dim {
	if a == b {
		return a
	}
	x, okX := a.Max()
	y, okY := b.Max()
	if !okX || !okY {
		return graph.Unknown
	}
	return graph.AtMost(max(x, y))
}

// SameDim reports whether two lengths can be equal.
func SameDim(a, b graph.Dim) bool {
	if a.Exact() && b.Exact() {
		return a == b
	}
	if a.Exact() {
		a, b = b, a
	}
	if most, ok := a.Max(); ok && b.Exact() {
		return int64(b) <= most
	}
	return true
}

// TakeDim is what is known of a length that equals both a and b.
func TakeDim(a, b graph.Dim) graph.Dim {
	switch {
	case a.Exact():
		return a
	case b.Exact():
		return b
	}
	x, okX := a.Max()
	y, okY := b.Max()
	if !okX || okY && (y < x || y == x && a.Identity() == 0) {
		return b
	}
	return a
}

// Broadcast applies numpy's rule to any number of shapes (multidirectional). ok
// is false if two lengths do not match; axis then counts from the right.
func Broadcast(shapes ...[]graph.Dim) (shape []graph.Dim, axis int, ok bool) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	shape = make([]graph.Dim, rank)
	for k := range shape {
		d := graph.Dim(1)
		for _, s := range shapes {
			j := len(s) - rank + k
			if j < 0 {
				continue
			}
			var fits bool
			if d, fits = broadcastDim(d, s[j]); !fits {
				return nil, rank - 1 - k, false
			}
		}
		shape[k] = d
	}
	return shape, 0, true
}

// broadcastDim joins two lengths of one axis. An exact length other than 1
// decides: the other must be it or 1.
func broadcastDim(a, b graph.Dim) (graph.Dim, bool) {
	switch {
	case a == b:
		return a, true
	case a == 1:
		return b, true
	case b == 1:
		return a, true
	case a.Exact() && b.Exact():
		return 0, false
	case a.Exact():
		return a, true
	case b.Exact():
		return b, true
	}
	return unionDim(a, b), true
}

// BroadcastArgs is Broadcast over inputs of the call. ranked is false if an
// input's rank is not known.
func (c *Call) BroadcastArgs(inputs ...int) (shape []graph.Dim, ranked bool, err error) {
	var shapes [][]graph.Dim
	for _, i := range inputs {
		if !c.In[i].Ranked {
			return nil, false, nil
		}
		shapes = append(shapes, c.In[i].Shape)
	}
	shape, _, ok := Broadcast(shapes...)
	if !ok {
		for k := 1; k < len(inputs); k++ {
			first, _, _ := Broadcast(shapes[:k]...)
			if _, axis, ok := Broadcast(first, shapes[k]); !ok {
				return nil, true, c.BadInput(inputs[k], "one that broadcasts with %s (axis %d from the right)", graph.ShapeString(first), axis)
			}
		}
	}
	return shape, true, nil
}
