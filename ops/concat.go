package ops

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// joining lists the operators that join tensors along an axis, or split one into
// parts.
var joining = family{"", []Op{
	{Name: "Split", Class: Move, Infer: inferSplit, Cut: cutSplit, Fold: foldSplit, Views: viewSplit, Ranges: rangesOfSplit, Moves: true, Lengths: []int{1}},
	{Name: "Concat", Class: Move, Concatenates: true, Infer: inferConcat, Cut: cutConcat, Fold: foldConcat, Views: viewConcat, Ranges: rangesOfConcat},
}}

// inferSplit: the lengths are an attribute before opset 13, then an input.
// Without them the parts are equal; from opset 18 on the last one may be shorter.
func inferSplit(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	list, err := c.list("split", 1)
	if err != nil {
		return err
	}
	outs := len(c.Out)
	if outs == 0 {
		return c.Errf("no outputs: expected one per part")
	}
	if list.stated && list.counted && len(list.elems) != outs {
		return c.Errf("split has %d parts, expected %d as there are outputs", len(list.elems), outs)
	}
	if n := c.Int("num_outputs", int64(outs)); n != int64(outs) {
		return c.Errf("num_outputs is %d, expected %d as there are outputs", n, outs)
	}
	if !in.Ranked {
		for i := range c.Out {
			c.SetUnranked(i, in.Elem)
		}
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(in.Shape))
	if err != nil {
		return err
	}
	parts, err := splitParts(c, in.Shape[axis], list, outs)
	if err != nil {
		return err
	}
	for i := range c.Out {
		c.Set(i, in.Elem, with(in.Shape, axis, parts[i]))
	}
	return nil
}

// splitParts returns the length of each part of an axis of length d.
func splitParts(c *Call, d graph.Dim, list intList, outs int) ([]graph.Dim, error) {
	parts := make([]graph.Dim, outs)
	if !list.stated {
		return parts, equalParts(c, d, parts)
	}
	open := 0
	sum := graph.Dim(0)
	for i := range parts {
		e := Scalar{State: Hidden}
		if list.counted {
			e = list.elems[i]
		}
		switch {
		case e.State != Known:
			open++
			parts[i] = upTo(d)
			if e.State == Bounded {
				parts[i] = boundedBy(d, e.I)
			}
		case e.I < 0:
			return nil, c.Errf("split[%d] is %d, expected a length", i, e.I)
		default:
			parts[i] = graph.Dim(e.I)
			if sum = AddDims(sum, parts[i]); sum == graph.Unknown {
				return nil, c.Errf("split: %w", graph.ErrTooLarge)
			}
		}
	}
	switch {
	case !d.Exact():
	case open == 0 && sum != d || sum > d:
		return nil, c.Errf("split adds up to %v, expected %v to match input 0 %s", sum, d, graph.ShapeString(c.In[0].Shape))
	case open == 1:
		for i := range parts {
			if !list.counted || list.elems[i].State != Known {
				parts[i] = d - sum
			}
		}
	}
	return parts, nil
}

// equalParts splits an axis into equal parts.
func equalParts(c *Call, d graph.Dim, parts []graph.Dim) error {
	n := int64(len(parts))
	if c.before(18) {
		if d.Exact() && int64(d)%n != 0 {
			return c.BadInput(0, "a length that can be cut into %d equal parts, not %v", n, d)
		}
		for i := range parts {
			parts[i] = Mono(d, func(k int64) int64 { return k / n })
		}
		return nil
	}
	ceil := func(k int64) int64 { return k/n + sign(k%n) }
	for i := range parts {
		parts[i] = Mono(d, ceil)
	}
	if d.Exact() {
		last := int64(d) - ceil(int64(d))*(n-1)
		if last < 0 {
			return c.BadInput(0, "a length that can be cut into %d parts of %d, the last one shorter, not %v", n, ceil(int64(d)), d)
		}
		parts[n-1] = graph.Dim(last)
	}
	return nil
}

func foldSplit(c *Call) {
	v := c.Arg(0).Value
	if v == nil || len(v.Shape) == 0 {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", 0), len(v.Shape))
	if err != nil {
		return
	}
	list, _ := c.list("split", 1)
	parts, err := splitParts(c, graph.Dim(v.Shape[axis]), list, len(c.Out))
	if err != nil {
		return
	}
	from := make([]int64, len(v.Shape))
	begin := int64(0)
	for o := range c.Out {
		if !parts[o].Exact() {
			return
		}
		c.fill(o, func(at []int64) Scalar {
			if len(at) != len(from) {
				return hiddenScalar
			}
			copy(from, at)
			from[axis] += begin
			return v.at(from)
		})
		begin += int64(parts[o])
	}
}

// viewSplit: a split into one part is a view.
func viewSplit(c *Call) []graph.Alias {
	if len(c.Out) != 1 {
		return nil
	}
	return viewIfSameSize(c)
}

// inferConcat: the axis defaults to 1 in opset 1 and is required from opset 4 on.
func inferConcat(c *Call) error {
	if err := c.Tensors(len(c.In)); err != nil {
		return err
	}
	if len(c.In) == 0 {
		return c.Errf("no inputs: expected one or more")
	}
	if !c.HasAttr("axis") && !c.before(4) {
		return c.Errf("attribute axis is missing")
	}
	var shape []graph.Dim
	first := -1
	ranked := true
	for i, in := range c.In {
		if err := c.sameElem(0, i); err != nil {
			return err
		}
		switch {
		case !in.Ranked:
			ranked = false
		case first < 0:
			first = i
		}
	}
	if first < 0 {
		c.SetUnranked(0, c.In[0].Elem)
		return nil
	}
	shape = append(shape, c.In[first].Shape...)
	axis, err := attr.Axis("axis", c.Int("axis", 1), len(shape))
	if err != nil {
		return err
	}
	sum := graph.Dim(0)
	for i, in := range c.In {
		if !in.Ranked {
			continue
		}
		if len(in.Shape) != len(shape) {
			return c.BadInput(i, "rank %d to match input %d %s", len(shape), first, graph.ShapeString(c.In[first].Shape))
		}
		for k, d := range in.Shape {
			if k == axis {
				continue
			}
			if differ(d, shape[k]) {
				return c.BadInput(i, "%v on axis %d to match input %d %s", shape[k], k, first, graph.ShapeString(c.In[first].Shape))
			}
			shape[k] = TakeDim(shape[k], d)
		}
		had := sum
		sum = AddDims(sum, in.Shape[axis])
		if sum == graph.Unknown && had.Exact() && in.Shape[axis].Exact() {
			return c.Errf("axis %d: %w", axis, graph.ErrTooLarge)
		}
	}
	shape[axis] = sum
	if !ranked {
		shape[axis] = graph.Unknown
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

// foldConcat treats elements of unknown inputs as hidden.
func foldConcat(c *Call) {
	shape, ok := c.outShape(0)
	if !ok || len(shape) == 0 {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", 1), len(shape))
	if err != nil {
		return
	}
	var begins []int64
	sum := int64(0)
	for _, in := range c.In {
		begins = append(begins, sum)
		if len(in.Shape) != len(shape) || !in.Shape[axis].Exact() {
			return
		}
		sum += int64(in.Shape[axis])
	}
	from := make([]int64, len(shape))
	c.fill(0, func(at []int64) Scalar {
		copy(from, at)
		i := len(begins) - 1
		for i > 0 && begins[i] > at[axis] {
			i--
		}
		from[axis] -= begins[i]
		return c.In[i].Value.at(from)
	})
}

// viewConcat: a concatenation of one input is a view.
func viewConcat(c *Call) []graph.Alias {
	if len(c.In) != 1 {
		return nil
	}
	return firstView(c)
}

// cutSplit: any axis but that of the parts.
func cutSplit(c *Call, axis int) *Cut { return cutBut(0)(c, axis) }

// cutConcat: along its own axis, a copy reads those of the inputs that have some of the
// rows.
func cutConcat(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	along, off := c.axisAttr(1, len(c.Out[0].Shape)), int64(0)
	for i := range c.In {
		cut.In[i] = Same(axis, c.length(i, axis))
		if axis == along {
			cut.In[i].Before, cut.In[i].After, cut.In[i].Empty = off, -off, true
			off += c.length(i, axis)
		}
	}
	return cut
}
