package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// grain is the number of elements in one part of an elementwise kernel: enough to hide
// the cost of scheduling the part, and few enough to stay in the cache.
const grain = 1 << 14

// cuts is the number of parts of at most size elements into which n elements are cut.
func cuts(n, size int) int { return (n + size - 1) / size }

// sweep iterates over an output and the inputs that are broadcast to it, row by row.
// The elements of a row are contiguous in the output; in each input they are
// contiguous too, or the row repeats a single element.
type sweep struct {
	n     int            // elements of a row
	rows  int            // number of rows
	inner [mostSwept]int // of each input, within a row: 0 or 1
	axes  *sweepAxes     // of the rows; nil: there is one
}

// sweepAxes are the axes of several rows.
type sweepAxes struct {
	shape  []int            // whose product is the number of rows
	stride [mostSwept][]int // of each input, by axis, in elements
}

// mostSwept is the largest number of inputs of a sweep, and usualRank the largest rank for which
// the lists that lead to one take no memory of Go's heap.
const (
	mostSwept = 3
	usualRank = 8
)

// newSweep fails unless the inputs, at most mostSwept, broadcast to out by numpy's rule. It merges
// adjacent axes that are contiguous in all inputs.
func newSweep(out []int, ins ...[]int) (*sweep, error) {
	var room [2*mostSwept + 1][usualRank]int
	list := func(k int) []int {
		if len(out) > usualRank {
			return make([]int, len(out))
		}
		return room[k][:len(out)]
	}
	var strides, axes [mostSwept][]int // axes: merged strides, the last axis first
	for k, in := range ins {
		if len(in) > len(out) {
			return nil, fmt.Errorf("shape %v does not broadcast to %v", in, out)
		}
		strides[k], axes[k] = list(k), list(mostSwept + k)[:0]
		step := 1
		for a := len(in) - 1; a >= 0; a-- {
			o := a + len(out) - len(in)
			switch in[a] {
			case out[o]:
				if in[a] != 1 {
					strides[k][o] = step
				}
			case 1:
			default:
				return nil, fmt.Errorf("shape %v does not broadcast to %v", in, out)
			}
			step *= in[a]
		}
	}
	shape := list(2 * mostSwept)[:0]
	for o := len(out) - 1; o >= 0; o-- {
		if out[o] == 1 {
			continue
		}
		if last := len(shape) - 1; last >= 0 && goesOn(axes[:len(ins)], strides[:len(ins)], shape[last], last, o) {
			shape[last] *= out[o]
			continue
		}
		shape = append(shape, out[o])
		for k := range ins {
			axes[k] = append(axes[k], strides[k][o])
		}
	}
	s := &sweep{n: 1, rows: 1}
	if len(shape) > 0 {
		s.n = shape[0]
		for k := range ins {
			s.inner[k] = axes[k][0]
			if s.inner[k] > 1 {
				s.inner[k] = -1
			}
		}
	}
	if len(shape) < 2 {
		return s, nil
	}
	s.axes = &sweepAxes{}
	for a := len(shape) - 1; a >= 1; a-- {
		s.axes.shape = append(s.axes.shape, shape[a])
		s.rows *= shape[a]
		for k := range ins {
			s.axes.stride[k] = append(s.axes.stride[k], axes[k][a])
		}
	}
	return s, nil
}

// goesOn reports whether axis o continues the merged axis last in every input.
func goesOn(axes, strides [][]int, length, last, o int) bool {
	for k := range strides {
		if strides[k][o] != axes[k][last]*length {
			return false
		}
	}
	return true
}

// at is the index of a row's first element in input k.
func (s *sweep) at(row, k int) int {
	if s.axes == nil {
		return 0
	}
	off, strides, shape := 0, s.axes.stride[k], s.axes.shape
	for a := len(strides) - 1; a > 0; a-- {
		up := row / shape[a]
		off += (row - up*shape[a]) * strides[a]
		row = up
	}
	return off + row*strides[0] // a division less, which takes as long as a short row
}

// length is the number of elements of input k that n elements of a row read.
func (s *sweep) length(k, n int) int {
	if s.inner[k] == 0 {
		return min(n, 1)
	}
	return n
}

// runs cuts the output elements [from, from+n) into pieces that lie in one row. A piece
// is the elements [i, i+m) of them, which read input 0 at element at and step apart.
func (s *sweep) runs(from, n int, piece func(i, m, at, step int)) {
	for i := 0; i < n; {
		row, within := (from+i)/s.n, (from+i)%s.n
		m := min(s.n-within, n-i)
		piece(i, m, s.at(row, 0)+within*s.inner[0], s.inner[0])
		i += m
	}
}

// each runs body over all rows, in parts of about grain elements: each call handles
// the elements [from, to) of one row.
func (s *sweep) each(body func(row, from, to, worker int)) Run {
	if s.rows == 0 || s.n == 0 {
		return func(*work.Pool) error { return nil }
	}
	if s.n <= grain && s.rows == 1 { // as most of a model with many nodes: what they keep is less
		n := s.n
		part := func(_, worker int) { body(0, 0, n, worker) }
		return func(w *work.Pool) error {
			w.For(1, part)
			return nil
		}
	}
	if s.n >= grain || s.rows == 1 {
		pieces := cuts(s.n, grain)
		part := func(p, worker int) {
			row, from := p/pieces, p%pieces*grain
			body(row, from, min(from+grain, s.n), worker)
		}
		return func(w *work.Pool) error {
			w.For(s.rows*pieces, part)
			return nil
		}
	}
	group := grain / s.n
	part := func(p, worker int) {
		for row := p * group; row < min((p+1)*group, s.rows); row++ {
			body(row, 0, s.n, worker)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(s.rows, group), part)
		return nil
	}
}

// loops is a binary operation on rows: of two vectors (vv), or of a vector and a
// scalar that repeats along the row (vs, sv).
type loops[T, U any] struct {
	vv func(d []U, a, b []T)
	vs func(d []U, a []T, b T)
	sv func(d []U, a T, b []T)
}

// loopsOf makes the loops of a function of two numbers.
func loopsOf[T, U any](f func(a, b T) U) loops[T, U] {
	return loops[T, U]{
		vv: func(d []U, a, b []T) {
			for i := range d {
				d[i] = f(a[i], b[i])
			}
		},
		vs: func(d []U, a []T, b T) {
			for i := range d {
				d[i] = f(a[i], b)
			}
		},
		sv: func(d []U, a T, b []T) {
			for i := range d {
				d[i] = f(a, b[i])
			}
		},
	}
}

// swapped are the loops of the operation with its operands swapped.
func (l loops[T, U]) swapped() loops[T, U] {
	return loops[T, U]{
		vv: func(d []U, a, b []T) { l.vv(d, b, a) },
		vs: func(d []U, a []T, b T) { l.sv(d, b, a) },
		sv: func(d []U, a T, b []T) { l.vs(d, b, a) },
	}
}

// run makes the kernel of a binary operation on inputs 0 and 1.
func (l loops[T, U]) run(c *Invocation) (Run, error) { return l.between(c.Out[0], c.In[0], c.In[1]) }

// between makes a kernel that computes out = a op b.
func (l loops[T, U]) between(out, a, b *Tensor) (Run, error) {
	s, err := newSweep(out.Shape, a.Shape, b.Shape)
	if err != nil {
		return nil, err
	}
	return s.each(func(row, from, to, _ int) {
		n := to - from
		d := span[U](element[U](out, row*s.n+from), n)
		x, y := s.at(row, 0), s.at(row, 1)
		switch {
		case s.inner[0] == 1 && s.inner[1] == 1:
			l.vv(d, span[T](element[T](a, x+from), n), span[T](element[T](b, y+from), n))
		case s.inner[0] == 1:
			l.vs(d, span[T](element[T](a, x+from), n), *(*T)(element[T](b, y)))
		case s.inner[1] == 1:
			l.sv(d, *(*T)(element[T](a, x)), span[T](element[T](b, y+from), n))
		default: // both repeat along the row, so the result does, too
			l.vv(d[:1], span[T](element[T](a, x), 1), span[T](element[T](b, y), 1))
			fill(d[1:], d[0])
		}
	}), nil
}

// legacy adapts the kernel of an operator to the broadcasting of opsets before 7: it
// reshapes input 1 so that numpy's rule aligns its axes as intended.
func legacy(broadcast func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		if c.Version == 0 || c.Version >= 7 {
			return broadcast(c)
		}
		right := *c.In[1]
		right.Shape = c.LegacyShape()
		inner := *c
		inner.In = []*Tensor{c.In[0], &right}
		run, err := broadcast(&inner)
		if err != nil {
			return nil, err
		}
		c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
		return func(w *work.Pool) error {
			right.At = c.In[1].At
			return run(w)
		}, nil
	}
}

// element is the address of element i of a tensor of T.
func element[T any](t *Tensor, i int) unsafe.Pointer {
	var zero T
	return unsafe.Add(t.At, i*int(unsafe.Sizeof(zero)))
}

// rowwise makes a kernel that maps each element of input 0 to the output element at
// the same place. f handles many elements at once.
func rowwise[T, U any](c *Invocation, f func(d []U, a []T)) (Run, error) {
	in, out := c.In[0], c.Out[0]
	n := out.Len()
	if in.Len() != n {
		return nil, fmt.Errorf("input 0 has %d elements, expected %d", in.Len(), n)
	}
	part := func(p, _ int) {
		from := p * grain
		m := min(grain, n-from)
		f(span[U](element[U](out, from), m), span[T](element[T](in, from), m))
	}
	if 0 < n && n <= grain {
		return func(w *work.Pool) error {
			w.For(1, part)
			return nil
		}, nil
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}
