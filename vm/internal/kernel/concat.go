package kernel

import "github.com/onnxmem/onnxmem/vm/internal/work"

// joining lists the operators that join tensors along an axis or split one.
var joining = family{"", []Kernel{
	{Name: "Concat", Make: makeConcat, Half: true},
	{Name: "Split", Make: makeSplit, Half: true},
}}

func makeConcat(c *Invocation) (Run, error) {
	out := c.Out[0]
	k, err := c.axis(1, out.rank())
	if err != nil {
		return nil, err
	}
	width, err := wholeBytes(out)
	if err != nil {
		return nil, err
	}
	var runs []Run
	off := 0
	inner := count(out.Shape[k+1:])
	for _, in := range c.In {
		m := newMover(width, in.Shape, strides(in.Shape), strides(out.Shape))
		runs = append(runs, unlessSamePlace(out, in, off, m.run(out, in, off, 0)))
		off += in.Shape[k] * inner
	}
	return func(w *work.Pool) error {
		for _, run := range runs {
			if err := run(w); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// unlessSamePlace skips an input that already lies at its place in the output.
func unlessSamePlace(out, in *Tensor, off int, run Run) Run {
	return func(w *work.Pool) error {
		if off == 0 && out.At == in.At {
			return nil
		}
		return run(w)
	}
}

func makeSplit(c *Invocation) (Run, error) {
	in := c.In[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	k, err := c.axis(0, in.rank())
	if err != nil {
		return nil, err
	}
	from := strides(in.Shape)
	var runs []Run
	off := 0
	for _, out := range c.Out {
		if out == nil {
			return nil, unsupportedf("an output that is left out")
		}
		run := newMover(width, out.Shape, from, strides(out.Shape)).run(out, in, 0, off*from[k])
		if len(c.Out) == 1 {
			run = unlessView(out, in, run)
		}
		runs = append(runs, run)
		off += out.Shape[k]
	}
	return inTurn(runs), nil
}

// inTurn runs several kernels in order.
func inTurn(runs []Run) Run {
	return func(w *work.Pool) error {
		for _, run := range runs {
			if err := run(w); err != nil {
				return err
			}
		}
		return nil
	}
}
