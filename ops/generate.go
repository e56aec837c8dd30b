package ops

import "github.com/onnxmem/onnxmem/graph"

// generators lists the operators that make a tensor from attributes, lengths or
// the shape of another tensor.
var generators = family{"", []Op{
	{Name: "Constant", Class: Other, Infer: inferConstant, Fold: foldConstant, Constant: true},
	{Name: "ConstantOfShape", Class: Other, Infer: inferConstantOfShape, Cut: cutConstantOfShape, Fold: foldConstantOfShape, Lengths: []int{0}},
	{Name: "Range", Class: Other, Infer: inferRange, Fold: foldRange, Rounds: always},
	{Name: "EyeLike", Class: Other, Infer: inferEyeLike},
	{Name: "Shape", Class: Other, Infer: inferShape, Fold: foldShape, OfShape: true},
	{Name: "Size", Class: Other, Infer: inferSize, Fold: foldSize, OfShape: true},
}}

// constantForms are the attributes that can hold the value of a Constant.
var constantForms = []string{"value", "sparse_value", "value_int", "value_ints", "value_float", "value_floats", "value_string", "value_strings"}

// constantForm is the attribute that holds a Constant's value.
func constantForm(c *Call) (*graph.Attr, error) {
	var found *graph.Attr
	for _, name := range constantForms {
		a := c.Node.Attr(name)
		switch {
		case a == nil:
		case found != nil:
			return nil, c.Errf("attributes %s and %s are both set, expected one value", found.Name, a.Name)
		default:
			found = a
		}
	}
	if found == nil {
		return nil, c.Errf("no value: expected one of %q", constantForms)
	}
	return found, nil
}

func inferConstant(c *Call) error {
	if err := c.takes(0, 0); err != nil {
		return err
	}
	a, err := constantForm(c)
	if err != nil {
		return err
	}
	elem, dims := graph.Undefined, []int64(nil)
	switch a.Name {
	case "value":
		if a.Tensor == nil {
			return c.Errf("value holds no tensor")
		}
		elem, dims = a.Tensor.Type, a.Tensor.Dims
	case "sparse_value":
		if a.Sparse == nil || a.Sparse.Values == nil {
			return c.Errf("sparse_value holds no sparse tensor")
		}
		elem, dims = a.Sparse.Values.Type, a.Sparse.Dims
	case "value_int":
		elem = graph.Int64
	case "value_ints":
		elem, dims = graph.Int64, []int64{int64(len(a.Ints))}
	case "value_float":
		elem = graph.Float32
	case "value_floats":
		elem, dims = graph.Float32, []int64{int64(len(a.Floats))}
	case "value_string":
		elem = graph.String
	case "value_strings":
		elem, dims = graph.String, []int64{int64(len(a.Strings))}
	}
	shape, err := c.constantShape(a.Name, dims)
	if err != nil {
		return err
	}
	c.Set(0, elem, shape)
	return nil
}

// constantShape checks the lengths of a tensor that an attribute holds.
func (c *Call) constantShape(name string, dims []int64) ([]graph.Dim, error) {
	shape := make([]graph.Dim, len(dims))
	for i, n := range dims {
		if n < 0 {
			return nil, c.Errf("%s has length %d at axis %d, expected at least 0", name, n, i)
		}
		shape[i] = graph.Dim(n)
	}
	return shape, nil
}

func foldConstant(c *Call) {
	a, err := constantForm(c)
	if err != nil {
		return
	}
	switch a.Name {
	case "value":
		c.SetValue(0, valueOf(a.Tensor))
	case "value_int":
		c.SetValue(0, &Value{Shape: []int64{}, Elems: []Scalar{{I: a.Int}}})
	case "value_ints":
		c.SetValue(0, NewInts(a.Ints...))
	case "value_float":
		c.SetValue(0, &Value{Shape: []int64{}, Elems: []Scalar{{F: float64(a.Float)}}})
	case "value_floats":
		v := &Value{Shape: []int64{int64(len(a.Floats))}, Elems: make([]Scalar, len(a.Floats))}
		for i, x := range a.Floats {
			v.Elems[i].F = float64(x)
		}
		c.SetValue(0, v)
	}
}

// inferConstantOfShape: input 0 holds the lengths, attribute value the element.
func inferConstantOfShape(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	elem := graph.Float32
	if a := c.Node.Attr("value"); a != nil {
		if a.Tensor == nil || count(a.Tensor.Dims) != 1 {
			return c.Errf("value is not a tensor of one element")
		}
		elem = a.Tensor.Type
	}
	in := c.In[0]
	if in.Ranked && len(in.Shape) != 1 {
		return c.BadInput(0, "a vector of lengths")
	}
	if v := in.Value; v != nil && v.Items == nil && !in.Elem.Floating() {
		shape := make([]graph.Dim, len(v.Elems))
		for i, s := range v.Elems {
			if s.State == Known && s.I < 0 {
				return c.Errf("input 0%s asks for length %d at axis %d, expected at least 0", c.inputName(0), s.I, i)
			}
			shape[i] = s.Dim()
		}
		c.Set(0, elem, shape)
		return nil
	}
	const most = 64 // axes; no sound model has more
	if in.Ranked && in.Shape[0].Exact() && in.Shape[0] <= most {
		shape := make([]graph.Dim, in.Shape[0])
		for i := range shape {
			shape[i] = graph.Unknown
		}
		c.Set(0, elem, shape)
		return nil
	}
	c.SetUnranked(0, elem)
	return nil
}

func foldConstantOfShape(c *Call) {
	shape, ok := c.outShape(0)
	if !ok {
		return
	}
	s := Scalar{}
	if a := c.Node.Attr("value"); a != nil {
		v := valueOf(a.Tensor)
		if v == nil || len(v.Elems) != 1 {
			return
		}
		s = v.Elems[0]
	}
	out := &Value{Shape: shape, Elems: make([]Scalar, count(shape))}
	for i := range out.Elems {
		out.Elems[i] = s
	}
	c.SetValue(0, out)
}

// inferEyeLike: the output has the shape of the input, a matrix, and its element
// type unless dtype is set.
func inferEyeLike(c *Call) error {
	if err := inferRandomLike(c); err != nil {
		return err
	}
	if t := c.In[0].Type; t.Ranked && len(t.Shape) != 2 {
		return c.BadInput(0, "a matrix")
	}
	return nil
}

// inferShape: from opset 15 on only the axes from start to end, which count from
// the last if negative and are clamped to the rank.
func inferShape(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	n := graph.Unknown
	if c.In[0].Ranked {
		from, to := shapeRun(c)
		n = graph.Dim(to - from)
	}
	c.Set(0, graph.Int64, []graph.Dim{n})
	return nil
}

// shapeRun is the axes of input 0 that Shape lists.
func shapeRun(c *Call) (from, to int) {
	rank := int64(len(c.In[0].Shape))
	clamp := func(n int64) int64 {
		if n < 0 {
			n += rank
		}
		return min(max(n, 0), rank)
	}
	start, end := clamp(c.Int("start", 0)), clamp(c.Int("end", rank))
	return int(start), int(max(start, end))
}

func foldShape(c *Call) {
	if !c.In[0].Ranked {
		return
	}
	from, to := shapeRun(c)
	v := &Value{Shape: []int64{int64(to - from)}, Elems: make([]Scalar, to-from)}
	for i, d := range c.In[0].Shape[from:to] {
		v.Elems[i] = FromDim(d)
	}
	c.SetValue(0, v)
}

func inferSize(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	c.Set(0, graph.Int64, nil)
	return nil
}

func foldSize(c *Call) {
	if c.In[0].Ranked {
		c.SetValue(0, &Value{Shape: []int64{}, Elems: []Scalar{FromDim(countOf(c.In[0].Shape))}})
	}
}

// lengthArg is the only element of integer input i as a length; of an input that is left out,
// Unknown.
func (c *Call) lengthArg(i int, what string) (graph.Dim, error) {
	if !c.Has(i) {
		return graph.Unknown, nil
	}
	if c.In[i].Elem.Floating() {
		return 0, c.Errf("input %d%s, the %s, has elements of type %v, expected integers", i, c.inputName(i), what, c.In[i].Elem)
	}
	if err := c.needOneElement(i, what); err != nil {
		return 0, err
	}
	s := c.scalarArg(i)
	if s.State == Known && s.I < 0 {
		return 0, c.Errf("input %d%s, the %s, is %d, expected at least 0", i, c.inputName(i), what, s.I)
	}
	return s.Dim(), nil
}

// cutConstantOfShape: a copy states its own shape.
func cutConstantOfShape(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	cut.Change = func(lo, hi int64) Change {
		return Change{Inputs: map[int][]int64{0: c.lengths(axis, hi-lo)}}
	}
	return cut
}
