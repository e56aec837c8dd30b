package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// expansion lists the operators that repeat elements along axes.
var expansion = family{"", []Op{
	{Name: "Expand", Class: Move, Infer: inferExpand, Cut: cutExpand, Fold: foldExpand, Views: viewIfSameSize, Moves: true, Lengths: []int{1}},
	{Name: "Tile", Class: Move, Infer: inferTile, Cut: cutTile, Fold: foldTile, Views: viewIfSameSize, Moves: true, Lengths: []int{1}},
}}

// inferExpand broadcasts input 0 with the shape in input 1.
func inferExpand(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	in := c.In[0]
	to, err := c.list("", 1)
	if err != nil {
		return err
	}
	shape := make([]graph.Dim, len(to.elems))
	for i, e := range to.elems {
		if e.State == Known && e.I < 0 {
			return c.Errf("shape has %d for axis %d, expected a length", e.I, i)
		}
		shape[i] = e.Dim()
	}
	if !in.Ranked || !to.counted {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	wide, axis, ok := Broadcast(in.Shape, shape)
	if !ok {
		return c.BadInput(0, "one that broadcasts to %s (axis %d from the right)", graph.ShapeString(shape), axis)
	}
	c.Set(0, in.Elem, wide)
	return nil
}

func foldExpand(c *Call) {
	v := c.Arg(0).Value
	shape, ok := c.outShape(0)
	if v == nil || !ok || len(v.Shape) > len(shape) {
		return
	}
	from := make([]int64, len(v.Shape))
	c.fill(0, func(at []int64) Scalar {
		for k, n := range v.Shape {
			if from[k] = at[len(at)-len(from)+k]; n == 1 {
				from[k] = 0
			}
		}
		return v.at(from)
	})
}

// inferTile repeats the input along every axis; in opset 1 along the axis in
// input 2.
func inferTile(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	in := c.In[0]
	if c.before(6) {
		return inferTileOne(c)
	}
	repeats, err := c.list("", 1)
	if err != nil {
		return err
	}
	if in.Ranked && repeats.counted && len(repeats.elems) != len(in.Shape) {
		return c.Errf("repeats has %d elements, expected %d to match input 0 %s", len(repeats.elems), len(in.Shape), graph.ShapeString(in.Shape))
	}
	switch {
	case !in.Ranked && !repeats.counted:
		c.SetUnranked(0, in.Elem)
		return nil
	case !in.Ranked:
		c.Set(0, in.Elem, unknowns(len(repeats.elems)))
		return nil
	case !repeats.counted:
		c.Set(0, in.Elem, unknowns(len(in.Shape)))
		return nil
	}
	shape := make([]graph.Dim, len(in.Shape))
	for k, e := range repeats.elems {
		if shape[k], err = repeatedLength(c, in.Shape[k], e, k); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// inferTileOne is Tile of opset 1: input 1 is the number of repeats, input 2 the
// axis.
func inferTileOne(c *Call) error {
	if err := c.Need(3); err != nil {
		return err
	}
	in := c.In[0]
	times, err := c.scalar(1)
	if err != nil {
		return err
	}
	axis, err := c.scalar(2)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	if axis.State != Known {
		c.Set(0, in.Elem, unknowns(len(in.Shape)))
		return nil
	}
	k, err := attr.Axis("axis", axis.I, len(in.Shape))
	if err != nil {
		return err
	}
	d, err := repeatedLength(c, in.Shape[k], times, k)
	if err != nil {
		return err
	}
	c.Set(0, in.Elem, with(in.Shape, k, d))
	return nil
}

// repeatedLength is the length of an axis that is repeated.
func repeatedLength(c *Call, d graph.Dim, repeats Scalar, axis int) (graph.Dim, error) {
	if repeats.State == Known && repeats.I < 0 {
		return 0, c.Errf("axis %d is repeated %d times, expected 0 or more", axis, repeats.I)
	}
	return c.times(d, repeats.Dim())
}

func foldTile(c *Call) {
	v := c.Arg(0).Value
	if v == nil {
		return
	}
	from := make([]int64, len(v.Shape))
	c.fill(0, func(at []int64) Scalar {
		if len(at) != len(from) {
			return hiddenScalar
		}
		for k, n := range v.Shape {
			if n == 0 {
				return hiddenScalar
			}
			from[k] = at[k] % n
		}
		return v.at(from)
	})
}

// cutExpand: a copy states its own shape.
func cutExpand(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	cut.In[0] = c.broadcastRows(0, axis, len(c.Out[0].Shape))
	cut.Change = func(lo, hi int64) Change {
		return Change{Inputs: map[int][]int64{1: c.lengths(axis, hi-lo)}}
	}
	return cut
}

// cutTile: an axis that is not repeated, or that has one element.
func cutTile(c *Call, axis int) *Cut {
	if c.before(6) {
		return nil
	}
	cut, n := c.cut(axis), c.length(0, axis)
	list, err := c.list("", 1)
	repeats, known := list.ints()
	switch {
	case n == int64(c.Out[0].Shape[axis]):
		cut.In[0] = Same(axis, n)
	case n != 1 || err != nil || !known:
		return nil
	default:
		cut.Change = func(lo, hi int64) Change {
			repeats := slices.Clone(repeats)
			repeats[axis] = hi - lo
			return Change{Inputs: map[int][]int64{1: repeats}}
		}
	}
	return cut
}
