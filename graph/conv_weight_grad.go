package graph

import "slices"

// ConvWeightGrad is an operator of SwapDomain: the gradient of the weights of a Conv, from
// its image x (input 0) and from the gradient dy of its result (input 1). The attributes,
// which are all stated, are those of the Conv. It is a function of the model whose body
// holds for all shapes and attributes, so that every runtime computes the same. The body
// transposes both inputs and the result; a kernel of its own needs no copy of them.
const ConvWeightGrad = "ConvWeightGrad"

// LeastConvWeightGradOpset is the first opset whose Shape has a start and an end.
const LeastConvWeightGradOpset = 15

// IsConvWeightGrad reports whether a function is ConvWeightGrad by name, has its body, and is
// written for an opset in which the body means this.
func (f *Function) IsConvWeightGrad() bool {
	return f.Name == ConvWeightGrad && FindOpset(f.Opsets, "") >= LeastConvWeightGradOpset && f.is(convWeightGrad(0))
}

// AddConvWeightGrad adds the function ConvWeightGrad to a model, with the imports and the IR
// version that it needs. It fails if the model has another function with that name, or too
// early an opset.
func (m *Model) AddConvWeightGrad() error {
	if v := m.Opset(""); v < LeastConvWeightGradOpset {
		return Errorf("opset %d: expected %d or later, whose Shape takes a part of a shape", v, LeastConvWeightGradOpset)
	}
	return m.addOwnOnce(convWeightGrad(m.Opset("")))
}

// convWeightGrad makes the function. With images and channels exchanged, x is convolved with
// dy as the kernel, where strides and dilations change places. Images of a group become
// channels: x [N, g·C, …] is read as [C, g·N, …], dy [N, M, …] as [M, N, …], and the result
// is [C, M, k…]. It may have a few windows more than the kernel has elements, since a Conv
// leaves out what remains of x behind its last window.
func convWeightGrad(version int64) *Function {
	b := &Graph{}
	node := func(op, name string, attrs []*Attr, in ...TensorID) TensorID {
		out := b.NewTensor(name)
		b.Nodes = append(b.Nodes, &Node{Op: op, Inputs: in, Outputs: []TensorID{out}, Attrs: attrs})
		return out
	}
	number := func(name string, v int64) *Attr { return &Attr{Name: name, Type: AttrInt, Int: v} }
	list := func(name string, v ...int64) []*Attr { return []*Attr{{Name: name, Type: AttrInts, Ints: v}} }
	given := func(name string, t AttrType, ref string) *Attr { return &Attr{Name: name, Type: t, Ref: ref} }
	lengths := func(name string, t TensorID, attrs ...*Attr) TensorID { return node("Shape", name, attrs, t) }
	shape := func(name string, parts ...TensorID) TensorID {
		return node("Concat", name, []*Attr{number("axis", 0)}, parts...)
	}
	x, dy := b.NewTensor("x"), b.NewTensor("dy")

	zero := node("Constant", "zero", list("value_ints", 0))
	rest := node("Constant", "rest", list("value_ints", -1))
	kernel := node("Constant", "kernel", []*Attr{given("value_ints", AttrInts, "kernel_shape")})
	group := node("Unsqueeze", "group", nil, node("Constant", "group_scalar", []*Attr{given("value_int", AttrInt, "group")}), zero)
	n := lengths("n", x, number("end", 1), number("start", 0))
	m := lengths("m", dy, number("end", 2), number("start", 1))
	c := node("Div", "c", nil, lengths("channels", x, number("end", 2), number("start", 1)), group)
	flat := shape("flat", zero, zero, rest) // both 0 keep a length

	image := node("Reshape", "image", nil, x, shape("image_shape", zero, group, c, rest))
	image = node("Transpose", "image_turned", list("perm", 2, 1, 0, 3), image)
	image = node("Reshape", "image_first", nil, image, shape("image_first_shape", c, rest, lengths("image_lengths", x, number("start", 2))))
	taps := node("Transpose", "taps_turned", list("perm", 1, 0, 2), node("Reshape", "taps", nil, dy, flat))
	taps = node("Reshape", "taps_first", nil, taps, shape("taps_first_shape", m, n, lengths("taps_lengths", dy, number("start", 2))))
	y := node("Conv", "windows", []*Attr{
		given("dilations", AttrInts, "strides"), given("group", AttrInt, "group"), given("pads", AttrInts, "pads"), given("strides", AttrInts, "dilations"),
	}, image, taps)
	end := shape("end", lengths("windows_first", y, number("end", 2), number("start", 0)), kernel)
	y = node("Slice", "kept", nil, y, node("Mul", "begin", nil, end, zero), end)
	y = node("Transpose", "kept_turned", list("perm", 1, 0, 2), node("Reshape", "kept_flat", nil, y, flat))
	dw := node("Reshape", "dw", nil, y, shape("dw_shape", m, c, kernel))
	b.Inputs, b.Outputs = []TensorID{x, dy}, []TensorID{dw}
	b.Link()
	return &Function{
		Domain: SwapDomain, Name: ConvWeightGrad, Attrs: []string{"dilations", "group", "kernel_shape", "pads", "strides"},
		Opsets: []Opset{{Version: version}}, Body: b,
	}
}

// is reports whether a function has the name, the attributes and the body of another one,
// whose nodes have no bodies. Attributes have no order: another tool may have written them.
func (f *Function) is(own *Function) bool {
	if f.Domain != own.Domain || f.Overload != "" || f.Name != own.Name || !slices.Equal(slices.Sorted(slices.Values(f.Attrs)), slices.Sorted(slices.Values(own.Attrs))) || len(f.Defaults) > 0 {
		return false
	}
	want, have := own.Body, f.Body
	if len(have.Nodes) != len(want.Nodes) || len(have.Captures) > 0 {
		return false
	}
	to := map[TensorID]TensorID{}
	same := func(a, b []TensorID) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if t, known := to[a[i]]; known && t != b[i] || a[i] < 0 || b[i] < 0 {
				return false
			}
			to[a[i]] = b[i]
		}
		return true
	}
	if !same(want.Inputs, have.Inputs) {
		return false
	}
	for i, n := range want.Nodes {
		m := have.Nodes[i]
		if m.Op != n.Op || m.Domain != n.Domain || m.Overload != "" || !sameAttrs(n, m) || !same(n.Inputs, m.Inputs) || !same(n.Outputs, m.Outputs) {
			return false
		}
	}
	return same(want.Outputs, have.Outputs)
}

func sameAttrs(n, m *Node) bool {
	return len(n.Attrs) == len(m.Attrs) && !slices.ContainsFunc(n.Attrs, func(a *Attr) bool {
		b := m.Attr(a.Name)
		return b == nil || !sameAttr(a, b)
	})
}

// sameAttr compares attributes of the bodies of own functions: numbers, lists, references,
// and vectors of int64.
func sameAttr(a, b *Attr) bool {
	if b.Name != a.Name || b.Type != a.Type || b.Ref != a.Ref || b.Int != a.Int || b.Float != a.Float || !slices.Equal(b.Ints, a.Ints) || (a.Tensor == nil) != (b.Tensor == nil) {
		return false
	}
	if a.Tensor == nil {
		return true
	}
	x, _ := a.Tensor.Integers(1)
	y, ok := b.Tensor.Integers(1)
	return ok && b.Tensor.Type == Int64 && slices.Equal(x, y) && slices.Equal(a.Tensor.Dims, b.Tensor.Dims)
}

// addOwnOnce adds a function of ours to a model. It fails if the model has another function
// with that name.
func (m *Model) addOwnOnce(own *Function) error {
	there := false
	for _, f := range m.Functions {
		if f.Domain == own.Domain && f.Name == own.Name && f.Overload == "" {
			if there = f.Own(); !there {
				return Errorf("function %q of domain %s has another body: expected that of onnxmem, or no such function", own.Name, own.Domain)
			}
		}
	}
	if !there {
		m.Functions = append(slices.Clip(m.Functions), own)
	}
	m.importOwn()
	return nil
}
