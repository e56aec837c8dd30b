package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// grain is how many elements one part of an elementwise kernel takes: enough to
// hide the cost of handing it out, and little enough to stay in the cache.
const grain = 1 << 14

// cuts is how many parts of at most size n makes.
func cuts(n, size int) int { return (n + size - 1) / size }

// sweep walks an output and the inputs that are broadcast to it, in rows whose
// elements lie side by side in the output, and side by side or all at one place
// in each input.
type sweep struct {
	n      int     // elements of a row
	rows   int     // rows
	shape  []int   // of the rows
	stride [][]int // of each input, by axis of shape, in elements
	inner  []int   // of each input, within a row: 0 or 1
}

// newSweep fails unless the inputs broadcast to out (numpy's rule). Axes along
// which all inputs go on as they would within one axis are made one.
func newSweep(out []int, ins ...[]int) (*sweep, error) {
	s := &sweep{n: 1, rows: 1, stride: make([][]int, len(ins)), inner: make([]int, len(ins))}
	strides := make([][]int, len(ins))
	for k, in := range ins {
		if len(in) > len(out) {
			return nil, fmt.Errorf("shape %v does not broadcast to %v", in, out)
		}
		strides[k] = make([]int, len(out))
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
	var shape []int
	axes := make([][]int, len(ins)) // merged strides, the last axis first
	for o := len(out) - 1; o >= 0; o-- {
		if out[o] == 1 {
			continue
		}
		if last := len(shape) - 1; last >= 0 && goesOn(axes, strides, shape[last], last, o) {
			shape[last] *= out[o]
			continue
		}
		shape = append(shape, out[o])
		for k := range ins {
			axes[k] = append(axes[k], strides[k][o])
		}
	}
	if len(shape) > 0 {
		s.n = shape[0]
		for k := range ins {
			s.inner[k] = axes[k][0]
			if s.inner[k] > 1 {
				s.inner[k] = -1
			}
		}
	}
	for a := len(shape) - 1; a >= 1; a-- {
		s.shape = append(s.shape, shape[a])
		s.rows *= shape[a]
		for k := range ins {
			s.stride[k] = append(s.stride[k], axes[k][a])
		}
	}
	return s, nil
}

// goesOn reports whether axis o of every input continues the merged axis last.
func goesOn(axes, strides [][]int, length, last, o int) bool {
	for k := range strides {
		if strides[k][o] != axes[k][last]*length {
			return false
		}
	}
	return true
}

// at is the element of input k that a row begins at.
func (s *sweep) at(row, k int) int {
	off := 0
	for a := len(s.shape) - 1; a >= 0; a-- {
		off += row % s.shape[a] * s.stride[k][a]
		row /= s.shape[a]
	}
	return off
}

// runs walks n elements of the output from element from on, in pieces of one row:
// elements [i, i+m) of them, which read input 0 from its element at on, step apart.
func (s *sweep) runs(from, n int, piece func(i, m, at, step int)) {
	for i := 0; i < n; {
		row, within := (from+i)/s.n, (from+i)%s.n
		m := min(s.n-within, n-i)
		piece(i, m, s.at(row, 0)+within*s.inner[0], s.inner[0])
		i += m
	}
}

// each runs body over all rows, cut into parts of about grain elements: rows
// [row, row+1), elements [from, to) of it.
func (s *sweep) each(body func(row, from, to, worker int)) Run {
	if s.rows == 0 || s.n == 0 {
		return func(*work.Pool) error { return nil }
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

// loops is a binary operation on rows: both inputs side by side, or one of them
// the same for the whole row.
type loops[T, U any] struct {
	vv func(d []U, a, b []T)
	vs func(d []U, a []T, b T)
	sv func(d []U, a T, b []T)
}

// loopsOf makes the loops of a function.
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

// run makes the kernel of a binary operation on inputs 0 and 1.
func (l loops[T, U]) run(c *Invocation) (Run, error) { return l.between(c.Out[0], c.In[0], c.In[1]) }

// between makes the kernel of out = a op b.
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
		default: // both repeat along the row: so does what they make
			l.vv(d[:1], span[T](element[T](a, x), 1), span[T](element[T](b, y), 1))
			fill(d[1:], d[0])
		}
	}), nil
}

// legacy makes the kernel of an operator that broadcasts input 1 in another way
// before opset 7: its axes are brought to where numpy's rule finds them.
func legacy(broadcast func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		if c.Version == 0 || c.Version >= 7 {
			return broadcast(c)
		}
		right := *c.In[1]
		right.Shape = legacyShape(c)
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

// legacyShape is the shape of input 1 with an axis of length 1 for each of input 0
// that follows: those of input 1 are the last ones, or go from attribute axis on;
// the slopes of PRelu are of channels.
func legacyShape(c *Invocation) []int {
	rank, right := c.In[0].rank(), c.In[1]
	if right.Len() == 1 {
		return []int{}
	}
	behind := 0
	switch at := c.Node.Attr("axis"); {
	case c.Node.Op == "PRelu":
		return append([]int{right.Len()}, slices.Repeat([]int{1}, max(0, rank-2))...)
	case at != nil && c.Int("broadcast", 0) != 0:
		k := int(at.Int)
		if k < 0 {
			k += rank
		}
		behind = max(0, rank-k-right.rank())
	}
	return append(slices.Clone(right.Shape), slices.Repeat([]int{1}, behind)...)
}

// element is the address of element i of a tensor of T.
func element[T any](t *Tensor, i int) unsafe.Pointer {
	var zero T
	return unsafe.Add(t.At, i*int(unsafe.Sizeof(zero)))
}

// rowwise makes the kernel of a function from each element of input 0 to the
// element of the output at the same place.
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
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}
