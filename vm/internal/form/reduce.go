package form

import (
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Folded holds the axes of a tensor that are reduced and those that are kept, with
// adjacent axes of one kind merged.
type Folded struct {
	Kept, KeptStride       []int
	Reduced, ReducedStride []int
}

// FoldAxes sorts the axes of a tensor of a shape; drop has the reduced ones.
func FoldAxes(shape []int, drop []bool) *Folded {
	f := &Folded{}
	step := 1
	lastDrop := -1
	for a := len(shape) - 1; a >= 0; a-- {
		n := shape[a]
		if n == 1 {
			continue
		}
		k := 0
		if drop[a] {
			k = 1
		}
		list, strides := &f.Kept, &f.KeptStride
		if drop[a] {
			list, strides = &f.Reduced, &f.ReducedStride
		}
		if k == lastDrop {
			(*list)[0] *= n
		} else {
			*list = append([]int{n}, *list...)
			*strides = append([]int{step}, *strides...)
		}
		lastDrop = k
		step *= n
	}
	return f
}

// ReducedAxes reads the axes of a reduction, from an attribute or input 1. An empty list
// means all axes, or, with noop_with_empty_axes, none.
func ReducedAxes(c *Call) ([]bool, error) {
	axes, err := c.ListOr("axes", 1)
	if err != nil {
		return nil, err
	}
	rank := c.In[0].Rank()
	if len(axes) > 0 {
		return attr.AxisSet("axes", toInt64s(axes), rank)
	}
	drop := make([]bool, rank)
	for a := range drop {
		drop[a] = c.Int("noop_with_empty_axes", 0) == 0
	}
	return drop, nil
}
