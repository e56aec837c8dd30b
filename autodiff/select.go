package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Gathering and scattering: the gradient of the one is the other.
var selectRules = []Rule{
	{Op: "Gather", Inputs: []int{0}, Grad: gatherGrad},
	{Op: "GatherElements", Inputs: []int{0}, Grad: func(c *Call) {
		a := attrs{"axis": c.Axis("axis", 0, 0), "reduction": "add"}
		c.Set(0, c.with("ScatterElements", a, c.zeros(c.X(0), c.shape(c.X(0))...), c.X(1), c.D(0)))
	}},
	{Op: "GatherND", Inputs: []int{0}, Grad: gatherNDGrad},
	{Op: "ScatterElements", Inputs: []int{0, 2}, Grad: scatterElementsGrad},
	{Op: "ScatterND", Inputs: []int{0, 2}, Grad: scatterNDGrad},
	{Op: "TopK", Inputs: []int{0}, Grad: func(c *Call) {
		a := attrs{"axis": c.Axis("axis", -1, 0)}
		c.Set(0, c.with("ScatterElements", a, c.zeros(c.X(0), c.shape(c.X(0))...), c.Y(1), c.D(0)))
	}},
}

// gatherGrad adds the gradient into zeros of the shape of the table: along axis
// 0 by ScatterND; along another the gathered axes are brought to the front.
func gatherGrad(c *Call) {
	axis := c.Axis("axis", 0, 0)
	shape, index := c.shape(c.X(0)), c.shape(c.X(1))
	if c.err != nil {
		return
	}
	d, k := c.D(0), len(index)
	front := slices.Clone(shape)
	if axis > 0 {
		front = concat([]int64{shape[axis]}, shape[:axis], shape[axis+1:])
		d = c.transpose(d, concat(axes(axis, k), axes(0, axis), axes(axis+k, len(shape)-axis-1))...)
	}
	at := c.op("Unsqueeze", c.castTo(c.X(1), graph.Int64), c.list(-1)) // ScatterND takes no other type
	d = c.with("ScatterND", attrs{"reduction": "add"}, c.zeros(c.X(0), front...), at, d)
	if axis > 0 {
		d = c.transpose(d, concat(axes(1, axis), []int64{0}, axes(axis+1, len(shape)-axis-1))...)
	}
	c.Set(0, d)
}

// gatherNDGrad: with batch axes, their positions are put before the indices.
func gatherNDGrad(c *Call) {
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

// adds reports whether a scatter adds; one that multiplies or compares is
// refused.
func (c *Call) adds() (add, ok bool) {
	switch r := c.Str("reduction", "none"); r {
	case "none":
		return false, true
	case "add":
		return true, true
	default:
		c.Failf("reduction %q has no gradient rule: expected none or add", r)
		return false, false
	}
}

func scatterElementsGrad(c *Call) {
	add, ok := c.adds()
	if !ok {
		return
	}
	axis := c.Axis("axis", 0, 0)
	if c.Needs(2) {
		c.Set(2, c.with("GatherElements", attrs{"axis": axis}, c.D(0), c.X(1)))
	}
	if c.Needs(0) {
		d := c.D(0)
		if !add {
			d = c.with("ScatterElements", attrs{"axis": axis}, d, c.X(1), c.zeros(d, c.shape(c.X(2))...))
		}
		c.Set(0, d)
	}
}

func scatterNDGrad(c *Call) {
	add, ok := c.adds()
	if !ok {
		return
	}
	if c.Needs(2) {
		c.Set(2, c.op("GatherND", c.D(0), c.X(1)))
	}
	if c.Needs(0) {
		d := c.D(0)
		if !add {
			d = c.op("ScatterND", d, c.X(1), c.zeros(d, c.shape(c.X(2))...))
		}
		c.Set(0, d)
	}
}
