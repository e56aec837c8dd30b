package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// gatherRules cover operators that read elements at positions given by an input.
// The gradient is a scatter.
var gatherRules = []Rule{
	{Op: "Gather", Inputs: []int{0}, Grad: gatherGrad},
	{Op: "GatherElements", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"axis": c.Axis("axis", 0, 0), "reduction": "add"}
		c.Set(0, c.with("ScatterElements", a, c.zeros(c.X(0), c.shape(c.X(0))...), c.X(1), c.D(0)))
	}},
	{Op: "GatherND", Inputs: []int{0}, Grad: gatherNDGrad},
	{Op: "ReverseSequence", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"batch_axis": c.Int("batch_axis", 1), "time_axis": c.Int("time_axis", 0)}
		c.Set(0, c.with("ReverseSequence", a, c.D(0), c.X(1)))
	}},
}

// gatherGrad adds the gradient into zeros of the shape of the table.
func gatherGrad(c *Backward) {
	axis := c.Axis("axis", 0, 0)
	shape := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	c.Set(0, c.gathered(c.D(0), axis, c.X(1), shape))
}

// gathered is the gradient of a Gather along an axis of a tensor of that shape. ScatterND
// adds d, the gradient of its result, into zeros along axis 0; for other axes, the gathered
// axes are first moved to the front.
func (c *Backward) gathered(d ID, axis int, index ID, shape []int64) ID {
	k := c.rank(index)
	front := slices.Clone(shape)
	if axis > 0 {
		front = concat([]int64{shape[axis]}, shape[:axis], shape[axis+1:])
		d = c.transpose(d, concat(axes(axis, k), axes(0, axis), axes(axis+k, len(shape)-axis-1))...)
	}
	at := c.op("Unsqueeze", c.castTo(index, graph.Int64), c.list(-1)) // ScatterND takes int64 indices only
	d = c.with("ScatterND", attrs{"reduction": "add"}, c.zeros(d, front...), at, d)
	if axis > 0 {
		d = c.transpose(d, concat(axes(1, axis), []int64{0}, axes(axis+1, len(shape)-axis-1))...)
	}
	return d
}

// gatherNDGrad: if there are batch axes, their positions are prepended to the
// indices.
func gatherNDGrad(c *Backward) {
	at := c.X(1)
	if batch := int(c.Int("batch_dims", 0)); batch > 0 {
		shape := c.shape(at)
		if c.err != nil {
			return
		}
		one := slices.Clone(shape)
		one[len(one)-1] = 1
		parts := []ID{}
		for b := range batch {
			v := make([]float64, shape[b])
			for i := range v {
				v[i] = float64(i)
			}
			s := filled(1, len(shape))
			s[b] = shape[b]
			parts = append(parts, c.expand(c.reals(graph.Int64, s, v), one))
		}
		at = c.with("Concat", attrs{"axis": -1}, append(parts, at)...)
	}
	c.Set(0, c.with("ScatterND", attrs{"reduction": "add"}, c.zeros(c.X(0), c.shape(c.X(0))...), at, c.D(0)))
}
