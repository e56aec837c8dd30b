package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// layouts lists the operators that change the shape or the order of the elements. If
// the plan made the output a view of the input, both have the same address and nothing
// is copied.
var layouts = family{"", []Kernel{
	{Name: "Reshape", Make: makeCopy, Half: true},
	{Name: "Flatten", Make: makeCopy, Half: true},
	{Name: "Squeeze", Make: makeCopy, Half: true},
	{Name: "Unsqueeze", Make: makeCopy, Half: true},
	{Name: "Transpose", Make: moving(form.TransposeMoves), Half: true, Moves: true},
	{Name: "DepthToSpace", Make: moving(form.DepthToSpaceMoves), Half: true, Moves: true},
	{Name: "SpaceToDepth", Make: moving(form.SpaceToDepthMoves), Half: true, Moves: true},
}}

// makeCopy copies input 0, whatever its shape, unless the output has its address.
func makeCopy(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	if in.Bytes() != out.Bytes() {
		return nil, fmt.Errorf("shape %v, expected as many elements as in %v", out.Shape, in.Shape)
	}
	n := out.Bytes()
	part := func(p, _ int) {
		from, to := p*copied, min((p+1)*copied, n)
		copy(raw(out)[from:to], raw(in)[from:to])
	}
	return func(w *work.Pool) error {
		if in.At != out.At {
			w.For(cuts(n, copied), part)
		}
		return nil
	}, nil
}

// copied is the number of bytes in one part of a copy.
const copied = 1 << 18

// mover copies elements between two strided layouts.
type mover struct {
	shape    []int // the last axis is the inner loop
	from, to []int // strides, in elements
	width    int   // of an element, in bytes
}

// newMover makes a mover for elements of width bytes.
func newMover(width int, m *form.Move) *mover {
	v := m.Merged()
	return &mover{shape: v.Shape, from: v.From, to: v.To, width: width}
}

// rows is the number of inner loops.
func (m *mover) rows() int { return count(m.shape[:len(m.shape)-1]) }

// move copies elements [first, end) of rows [a, b).
func (m *mover) move(to, from unsafe.Pointer, a, b, first, end int) {
	k := len(m.shape) - 1
	for r := a; r < b; r++ {
		x, y := first*m.from[k], first*m.to[k]
		i := r
		for j := k - 1; j >= 0; j-- {
			p := i % m.shape[j]
			i /= m.shape[j]
			x += p * m.from[j]
			y += p * m.to[j]
		}
		moveRow(unsafe.Add(to, y*m.width), unsafe.Add(from, x*m.width), end-first, m.to[k], m.from[k], m.width)
	}
}

func moveRow(to, from unsafe.Pointer, n, toStep, fromStep, width int) {
	if toStep == 1 && fromStep == 1 {
		copy(span[byte](to, n*width), span[byte](from, n*width))
		return
	}
	switch width {
	case 1:
		moveStrided[uint8](to, from, n, toStep, fromStep)
	case 2:
		moveStrided[uint16](to, from, n, toStep, fromStep)
	case 4:
		moveStrided[uint32](to, from, n, toStep, fromStep)
	case 8:
		moveStrided[uint64](to, from, n, toStep, fromStep)
	default:
		moveStrided[[2]uint64](to, from, n, toStep, fromStep)
	}
}

func moveStrided[T any](to, from unsafe.Pointer, n, toStep, fromStep int) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	for i := range n {
		*(*T)(unsafe.Add(to, i*toStep*size)) = *(*T)(unsafe.Add(from, i*fromStep*size))
	}
}

// transposes reports whether a mover transposes matrices of 1-, 2- or 4-byte elements: its
// last axis is contiguous in the destination, and axis k in the source.
func (m *mover) transposes() (k int, is bool) {
	last := len(m.shape) - 1
	if m.width > 4 || m.to[last] != 1 || m.shape[last] < 8 {
		return 0, false
	}
	for k := range last {
		if m.from[k] == 1 && m.shape[k] >= 8 {
			return k, true
		}
	}
	return 0, false
}

// transpose is run for a mover that transposes: each part transposes some columns of
// one matrix.
func (m *mover) transpose(k int, to, from *Tensor, toOff, fromOff int) Run {
	last := len(m.shape) - 1
	rows, columns := m.shape[last], m.shape[k] // of the source
	var shape, x, y []int
	for a := range last {
		if a != k {
			shape, x, y = append(shape, m.shape[a]), append(x, m.from[a]), append(y, m.to[a])
		}
	}
	at := max(64, grain/max(rows, 1)&^7)
	pieces := cuts(columns, at)
	high := min(rows, 4*grain) // rows at once
	bands := cuts(rows, high)
	part := func(p, _ int) {
		matrix, first, top := p/pieces/bands, p/bands%pieces*at, p%bands*high
		s := fromOff + offset(matrix, shape, x) + first + top*m.from[last]
		d := toOff + offset(matrix, shape, y) + first*m.to[k] + top
		n, h := min(at, columns-first), min(high, rows-top)
		switch m.width {
		case 1:
			simd.TransposeBytes((*byte)(element[byte](to, d)), (*byte)(element[byte](from, s)), m.to[k], m.from[last], h, n)
		case 2:
			simd.Transpose((*uint16)(element[uint16](to, d)), (*uint16)(element[uint16](from, s)), m.to[k], m.from[last], h, n)
		default:
			simd.Transpose((*float32)(element[float32](to, d)), (*float32)(element[float32](from, s)), m.to[k], m.from[last], h, n)
		}
	}
	return func(w *work.Pool) error {
		w.For(count(shape)*pieces*bands, part)
		return nil
	}
}

// interleaves reports whether a mover takes elements from a few rows by turns: those of the last
// axis are contiguous in the destination, and those of the axis before it in the source.
func (m *mover) interleaves() bool {
	last := len(m.shape) - 1
	return last > 0 && m.to[last] == 1 && m.from[last-1] == 1 && m.to[last-1] == m.shape[last] && m.shape[last] < 8 && m.shape[last-1] >= 8
}

// interleave is run for a mover that interleaves.
func (m *mover) interleave(to, from *Tensor, toOff, fromOff int) Run {
	last := len(m.shape) - 1
	n, columns := m.shape[last], m.shape[last-1]
	outer, rows := m.shape[:last-1], count(m.shape[:last-1])
	length := min(columns, 4*grain)
	pieces, group := cuts(columns, length), max(1, grain/(n*columns))
	part := func(p, _ int) {
		first := p % pieces * length
		p /= pieces
		for r := p * group; r < min((p+1)*group, rows); r++ {
			d := unsafe.Add(to.At, m.width*(toOff+offset(r, outer, m.to)+first*n))
			s := unsafe.Add(from.At, m.width*(fromOff+offset(r, outer, m.from)+first))
			interleaveRows(d, s, min(length, columns-first), n, m.from[last], m.width)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(rows, group)*pieces, part)
		return nil
	}
}

// interleaveRows writes the elements of rows by turns; the rows are step elements apart.
func interleaveRows(to, from unsafe.Pointer, columns, rows, step, width int) {
	if rows == 2 && width == 4 {
		simd.Interleave(span[uint32](to, 2*columns), span[uint32](from, columns), span[uint32](unsafe.Add(from, 4*step), columns))
		return
	}
	for r := range rows {
		moveRow(unsafe.Add(to, r*width), unsafe.Add(from, r*step*width), columns, rows, 1, width)
	}
}

// run makes a kernel that moves elements between two tensors, beginning at elements
// fromOff and toOff.
func (m *mover) run(to, from *Tensor, toOff, fromOff int) Run {
	rows, n := m.rows(), m.shape[len(m.shape)-1]
	if rows == 0 || n == 0 {
		return func(*work.Pool) error { return nil }
	}
	if k, is := m.transposes(); is {
		return m.transpose(k, to, from, toOff, fromOff)
	}
	if m.interleaves() {
		return m.interleave(to, from, toOff, fromOff)
	}
	group, length := max(1, grain/n), min(n, 4*grain)
	pieces := cuts(n, length) // long rows are cut
	part := func(p, _ int) {
		first := p % pieces * length
		p /= pieces
		m.move(unsafe.Add(to.At, toOff*m.width), unsafe.Add(from.At, fromOff*m.width), p*group, min((p+1)*group, rows), first, min(first+length, n))
	}
	return func(w *work.Pool) error {
		w.For(cuts(rows, group)*pieces, part)
		return nil
	}
}

// unlessView runs a kernel unless the plan made its output a view of in.
func unlessView(out, in *Tensor, run Run) Run {
	return func(w *work.Pool) error {
		if out.At == in.At {
			return nil
		}
		return run(w)
	}
}

// elementAt is the address of element i of a tensor with elements of width bytes.
func elementAt(t *Tensor, i, width int) unsafe.Pointer { return unsafe.Add(t.At, i*width) }
