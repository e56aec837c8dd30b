package form

import (
	"github.com/onnxmem/onnxmem/ops/attr"
)

// SliceMoves is the copy of a Slice.
func SliceMoves(c *Call) ([]Move, error) {
	in := c.In[0]
	starts, err := c.ListOr("starts", 1)
	if err != nil {
		return nil, err
	}
	list, err := c.ListOr("axes", 3)
	if err != nil {
		return nil, err
	}
	axes, err := attr.Axes("axes", toInt64s(list), in.Rank())
	if err != nil {
		return nil, err
	}
	steps, err := c.Value(4)
	if err != nil {
		return nil, err
	}
	from := Strides(in.Shape)
	off := 0
	for i, start := range starts {
		a := i
		if list != nil {
			a = axes[i]
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
	return moveOf(c.Out[0].Shape, from, off), nil
}
