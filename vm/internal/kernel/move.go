package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// moving makes the kernel of an operator that only moves elements. An input that lies
// at its place in the output, because the plan made one a view of the other, stays.
func moving(moves func(c *form.Call) ([]form.Move, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		list, err := moves(&c.Call)
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
func (c *Invocation) move(m *form.Move) (Run, error) {
	in, out := c.In[m.In], c.Out[m.Out]
	width, err := form.WholeBytes(in)
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
