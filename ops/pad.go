package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// pads lists the operators that pad or crop a tensor, or keep a triangle of it.
var pads = family{"", []Op{
	{Name: "Pad", Class: Move, Infer: inferPad, Cut: cutPad, Views: viewPad, Check: checkPad},
	{Name: "CenterCropPad", Class: Move, Infer: inferCenterCropPad, Views: viewIfSameShape},
	{Name: "Trilu", Class: Move, Infer: inferTrilu, Cut: cutTrilu, Inplace: overFirst},
}}

// padding is the length that Pad adds to one axis at each end; negative lengths
// crop.
type padding struct{ begin, end Scalar }

// inferPad: the lengths are attribute paddings in opset 1, pads in opset 2, then
// an input; from opset 18 on they may apply to some axes only.
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

// checkPad: in modes other than constant, padding copies elements of the input.
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

// padAxes returns the padding of each axis of input 0; known is false if the axes
// are not known.
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
	at, err := attr.Axes("axes", axes, rank)
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

// length is the length of a padded axis.
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

// viewPad: padding by nothing is a view.
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

// inferCenterCropPad: the given axes, by default all, get the lengths in input 1
// (opset 18 on).
func inferCenterCropPad(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	in := c.In[0]
	to, err := c.list("", 1)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	axes, err := attr.AxesOrAll(c.Node, "axes", len(in.Shape))
	if err != nil {
		return err
	}
	if to.counted && len(to.elems) != len(axes) {
		return c.Errf("shape has %d elements, expected %d: one for each axis", len(to.elems), len(axes))
	}
	shape := append([]graph.Dim{}, in.Shape...)
	for i, k := range axes {
		shape[k] = graph.Unknown
		if !to.counted {
			continue
		}
		if e := to.elems[i]; e.State == Known && e.I < 0 {
			return c.Errf("length of axis %d is %d, expected 0 or more", k, e.I)
		}
		shape[k] = to.elems[i].Dim()
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// inferTrilu: the output is like the input.
func inferTrilu(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	if c.Has(1) {
		if _, err := c.scalar(1); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// cutPad: an axis that is padded only with a constant; a copy has the padding that its
// rows lie in.
func cutPad(c *Call, axis int) *Cut {
	pads, known, err := padAxes(c)
	if err != nil || !known {
		return nil
	}
	cut, p, n := c.same(axis), pads[axis], c.length(0, axis)
	if p == (padding{}) {
		return cut
	}
	name := "pads"
	if c.before(2) {
		name = "paddings"
	}
	list, err := c.list(name, 1)
	all, known := list.ints()
	if err != nil || !known || c.Str("mode", "constant") != "constant" {
		return nil
	}
	some, _ := c.list("", 3)
	at := axis
	if axes, _ := some.ints(); some.stated {
		list, err := attr.Axes("axes", axes, len(pads))
		if err != nil {
			return nil
		}
		at = slices.Index(list, axis)
	}
	begin := p.begin.I
	cut.In[0].Before, cut.In[0].After = begin, -begin
	cut.Change = func(lo, hi int64) Change {
		own := slices.Clone(all)
		own[at], own[at+len(own)/2] = max(begin-lo, 0), max(hi-begin-n, 0)
		return c.restate(name, 1, own)
	}
	return cut
}

// cutTrilu: the axes before the matrices.
func cutTrilu(c *Call, axis int) *Cut {
	if axis >= len(c.In[0].Shape)-2 {
		return nil
	}
	return c.same(axis)
}
