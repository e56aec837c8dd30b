package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// cutting takes parts of a tensor, or repeats it.
var cutting = family{"", []Kernel{
	{Name: "Slice", Make: makeSlice, Half: true},
	{Name: "Split", Make: makeSplit, Half: true},
	{Name: "Expand", Make: makeExpand, Half: true},
	{Name: "Tile", Make: makeTile, Half: true},
}}

func makeSlice(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	starts, err := c.ListOr("starts", 1)
	if err != nil {
		return nil, err
	}
	axes, err := c.ListOr("axes", 3)
	if err != nil {
		return nil, err
	}
	steps, err := c.Value(4)
	if err != nil {
		return nil, err
	}
	from := strides(in.Shape)
	off := 0
	for i, start := range starts {
		a := i
		if axes != nil {
			if a, err = axis(axes[i], in.rank()); err != nil {
				return nil, err
			}
		}
		step := 1
		if steps != nil {
			step = steps[i]
		}
		n := in.Shape[a]
		if start < 0 {
			start += n
		}
		if step < 0 {
			start = min(max(start, 0), n-1)
		} else {
			start = min(max(start, 0), n)
		}
		off += start * from[a]
		from[a] *= step
	}
	return unlessView(out, in, newMover(width, out.Shape, from, strides(out.Shape)).run(out, in, 0, off)), nil
}

func makeSplit(c *Call) (Run, error) {
	in := c.In[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	k, err := axis(c.Int("axis", 0), in.rank())
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

// inTurn runs several kernels, one after the other.
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

// makeExpand repeats axes of length 1: their stride is 0.
func makeExpand(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	from := make([]int, out.rank())
	s := strides(in.Shape)
	lead := out.rank() - in.rank()
	for a, n := range in.Shape {
		if n == out.Shape[lead+a] {
			from[lead+a] = s[a]
		}
	}
	return unlessView(out, in, newMover(width, out.Shape, from, strides(out.Shape)).run(out, in, 0, 0)), nil
}

// makeTile walks each axis as two: repeats, of stride 0, and the input's.
func makeTile(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	var shape, from []int
	s := strides(in.Shape)
	for a, n := range in.Shape {
		shape = append(shape, out.Shape[a]/n, n)
		from = append(from, 0, s[a])
	}
	return unlessView(out, in, newMover(width, shape, from, strides(shape)).run(out, in, 0, 0)), nil
}
