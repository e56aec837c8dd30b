package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// inferExpand broadcasts input 0 with the shape that input 1 holds.
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

// inferTile repeats the input along every axis; in opset 1 along the one that
// input 2 names.
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
		if shape[k], err = tiled(c, in.Shape[k], e, k); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// inferTileOne is opset 1: input 1 is how often, input 2 along which axis.
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
	k, err := c.Axis("axis", axis.I, len(in.Shape))
	if err != nil {
		return err
	}
	d, err := tiled(c, in.Shape[k], times, k)
	if err != nil {
		return err
	}
	c.Set(0, in.Elem, with(in.Shape, k, d))
	return nil
}

// tiled is an axis of length d laid end to end with itself.
func tiled(c *Call, d graph.Dim, repeats Scalar, axis int) (graph.Dim, error) {
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

// padding is what Pad adds to one axis; below 0 it takes away.
type padding struct{ begin, end Scalar }

// inferPad: the pads are the attribute paddings in opset 1 and pads in opset
// 2, then an input; from opset 18 on they may be of some axes only.
func inferPad(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	pads, known, err := padAxes(c)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	if !known {
		c.Set(0, in.Elem, unknowns(len(in.Shape)))
		return nil
	}
	shape := make([]graph.Dim, len(in.Shape))
	for k, d := range in.Shape {
		if shape[k], err = pads[k].length(c, d, k); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// checkPad: elements that are not the constant are those of the input.
func checkPad(c *Call) error {
	mode, err := c.OneOf("mode", "constant", "constant", "reflect", "edge", "wrap")
	if err != nil {
		return err
	}
	if c.Has(2) && elements(c.In[2].Type) > 1 {
		return c.BadInput(2, "one element, the constant")
	}
	for k, d := range c.In[0].Shape {
		if d == 0 && mode != "constant" {
			return c.BadInput(0, "elements on axis %d, to pad it with mode %s", k, mode)
		}
	}
	return nil
}

// padAxes gives the padding of each axis of input 0; known is false when the
// axes are not known.
func padAxes(c *Call) (pads []padding, known bool, err error) {
	name := "pads"
	if c.before(2) {
		name = "paddings"
	}
	list, err := c.list(name, 1)
	if err != nil {
		return nil, false, err
	}
	if !list.stated {
		return nil, false, c.Errf("pads are missing: expected an attribute (before opset 11) or input 1")
	}
	some, err := c.list("", 3)
	if err != nil || !c.In[0].Ranked {
		return nil, false, err
	}
	rank := len(c.In[0].Shape)
	n := rank
	if some.stated {
		n = len(some.elems)
	}
	if some.counted && list.counted && len(list.elems) != 2*n {
		return nil, false, c.Errf("pads has %d elements, expected %d: two for each of %d axes", len(list.elems), 2*n, n)
	}
	pads = make([]padding, rank)
	axes, known := some.ints()
	if !known {
		nothing := list.counted && !slicesHasOther(list.elems, Scalar{})
		return pads, nothing, nil
	}
	at, err := c.Axes("axes", axes, rank)
	if err != nil {
		return nil, false, err
	}
	for i := range n {
		k := i
		if some.stated {
			k = at[i]
		}
		pads[k] = padding{hiddenScalar, hiddenScalar}
		if list.counted {
			pads[k] = padding{list.elems[i], list.elems[n+i]}
		}
	}
	return pads, true, nil
}

// slicesHasOther reports whether an element differs from e.
func slicesHasOther(elems []Scalar, e Scalar) bool {
	for _, x := range elems {
		if x != e {
			return true
		}
	}
	return false
}

// length is that of a padded axis.
func (p padding) length(c *Call, d graph.Dim, axis int) (graph.Dim, error) {
	n, bounded := d.Max()
	if p.begin.State == Hidden || p.end.State == Hidden || !bounded && p != (padding{}) {
		return graph.Unknown, nil
	}
	sum, ok := addChecked(p.begin.I, p.end.I)
	if ok {
		sum, ok = addChecked(n, sum)
	}
	exact := d.Exact() && p.begin.State == Known && p.end.State == Known
	switch {
	case p == padding{}:
		return d, nil
	case !ok:
		return 0, c.Errf("axis %d of length %v padded by %d and %d: %w", axis, d, p.begin.I, p.end.I, graph.ErrTooLarge)
	case sum < 0 && exact:
		return 0, c.Errf("axis %d of length %v padded by %d and %d has length %d, expected 0 or more", axis, d, p.begin.I, p.end.I, sum)
	case exact:
		return graph.Dim(sum), nil
	}
	return upTo(graph.Dim(max(sum, 0))), nil
}

// viewPad: nothing is added and nothing taken away.
func viewPad(c *Call) []graph.Alias {
	pads, known, err := padAxes(c)
	if err != nil || !known {
		return nil
	}
	for _, p := range pads {
		if p != (padding{}) {
			return nil
		}
	}
	return firstView(c)
}
