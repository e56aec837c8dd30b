package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// puts lists the operator that writes rows into a tensor. In a model it is a function
// (graph.PutRows).
var puts = family{graph.SwapDomain, []Op{
	{Name: graph.PutRows, Class: Scatter, Updates: true, Infer: inferPutRows, Fold: foldPutRows, Inplace: overFirst},
}}

// inferPutRows: like input 0. Input 1 has the same lengths but on one axis, on which
// its rows lie within those of input 0. Which rows is known before the model runs.
func inferPutRows(c *Call) error {
	if err := c.takes(4, 4); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	base, part := c.In[0], c.In[1]
	c.setLike(0, 0, base.Elem)
	at, okAt := c.In[2].Value.Ints()
	axes, okAxes := c.In[3].Value.Ints()
	if !okAt || !okAxes || len(at) != 1 || len(axes) != 1 || !base.Exact() || !part.Exact() {
		return c.Errf("rows are not known: expected constants of one element at inputs 2 and 3 and tensors of known shapes")
	}
	axis := c.Int("axis", -1)
	if axis != axes[0] || axis < 0 || axis >= int64(len(base.Shape)) {
		return c.Errf("axis is %d and input 3 is %d: expected the same axis of input 0 %s", axis, axes[0], graph.ShapeString(base.Shape))
	}
	if len(part.Shape) != len(base.Shape) {
		return c.BadInput(1, "as many axes as input 0 %s", graph.ShapeString(base.Shape))
	}
	for a, d := range base.Shape {
		if int64(a) != axis && part.Shape[a] != d {
			return c.BadInput(1, "%s as input 0 but on axis %d", graph.ShapeString(base.Shape), axis)
		}
	}
	if rows := int64(base.Shape[axis]); at[0] < 0 || at[0] > rows-int64(part.Shape[axis]) {
		return c.Errf("rows %d to %d of axis %d: expected rows of input 0 %s", at[0], at[0]+int64(part.Shape[axis])-1, axis, graph.ShapeString(base.Shape))
	}
	// Before opset 10, the body of the function reads the same from attributes.
	for _, x := range []*graph.Attr{
		{Name: "axes", Ints: axes}, {Name: "at", Ints: at}, {Name: "behind", Ints: []int64{at[0] + int64(part.Shape[axis])}},
	} {
		if a := c.Node.Attr(x.Name); a != nil && !slices.Equal(a.Ints, x.Ints) {
			return c.Errf("attribute %s is %v: expected %v, as the inputs say", x.Name, a.Ints, x.Ints)
		}
	}
	return nil
}

// foldPutRows: the rows of a list of lengths may be computed in slices, beside ranges of dimensions.
func foldPutRows(c *Call) {
	base, part := c.In[0].Value, c.In[1].Value
	at, known := c.In[2].Value.Ints()
	if part == nil || !known {
		return // most parts are data: of these, the base's zeros are of no use
	}
	axis := c.Int("axis", -1)
	from := make([]int64, len(part.Shape))
	c.fill(0, func(index []int64) Scalar {
		copy(from, index)
		if from[axis] -= at[0]; from[axis] < 0 || from[axis] >= part.Shape[axis] {
			return base.at(index)
		}
		return part.at(from)
	})
}
