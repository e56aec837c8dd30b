package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Move is a copy of elements of an input to an output, between two strided layouts. An
// operator that only moves elements consists of such copies, whose order does not
// matter.
type Move struct {
	In, Out        int   // the tensors are input In and output Out
	Shape          []int // the lengths of the axes that are run through
	From, To       []int // strides along these axes in the input and the output, in elements
	FromOff, ToOff int   // the elements at which the copy begins
}

// moveOf is a copy of input 0 to output 0 that fills the output in its order.
func moveOf(shape, from []int, fromOff int) []Move {
	return []Move{{Shape: shape, From: from, To: strides(shape), FromOff: fromOff}}
}

// Merged is the same copy without axes of length 1, and with adjacent axes merged that
// are contiguous in both layouts. It has at least one axis.
func (m *Move) Merged() Move {
	v := Move{In: m.In, Out: m.Out, FromOff: m.FromOff, ToOff: m.ToOff}
	for a, n := range m.Shape {
		if n == 1 {
			continue
		}
		if k := len(v.Shape) - 1; k >= 0 && v.From[k] == m.From[a]*n && v.To[k] == m.To[a]*n {
			v.Shape[k] *= n
			v.From[k], v.To[k] = m.From[a], m.To[a]
			continue
		}
		v.Shape, v.From, v.To = append(v.Shape, n), append(v.From, m.From[a]), append(v.To, m.To[a])
	}
	if len(v.Shape) == 0 {
		v.Shape, v.From, v.To = []int{count(m.Shape)}, []int{1}, []int{1}
	}
	return v
}

// moving makes the kernel of an operator that only moves elements. An input that lies
// at its place in the output, because the plan made one a view of the other, stays.
func moving(moves func(c *Invocation) ([]Move, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		list, err := moves(c)
		if err != nil {
			return nil, err
		}
		runs := make([]Run, len(list))
		for i := range list {
			if runs[i], err = c.move(&list[i]); err != nil {
				return nil, err
			}
		}
		return inTurn(runs), nil
	}
}

// move makes the function that runs one copy.
func (c *Invocation) move(m *Move) (Run, error) {
	in, out := c.In[m.In], c.Out[m.Out]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	run := newMover(width, m).run(out, in, m.ToOff, m.FromOff)
	return func(w *work.Pool) error {
		if unsafe.Add(in.At, m.FromOff*width) == unsafe.Add(out.At, m.ToOff*width) {
			return nil
		}
		return run(w)
	}, nil
}

// inTurn runs several kernels in order.
func inTurn(runs []Run) Run {
	if len(runs) == 1 {
		return runs[0]
	}
	return func(w *work.Pool) error {
		for _, run := range runs {
			if err := run(w); err != nil {
				return err
			}
		}
		return nil
	}
}
