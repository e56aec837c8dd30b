package graph

// FlashAttention and FlashAttentionGrad are operators of SwapDomain: attention that keeps no
// scores, and its gradient, which computes them again (Dao 2023, FlashAttention-2). Both are
// functions of the model whose bodies hold for all shapes, so that every runtime computes the
// same. The bodies make the scores as tensors; kernels of their own need a few rows of them.
//
// Inputs: q [B, H, Q, D], k [B, G, D, K] and v [B, G, K, E], of one type, where H is a multiple of
// G; bias, which is added to the scaled scores, and keep, whose scores stay where others become
// fill: both broadcast to the scores [B, H, Q, K]. The attributes, all stated, are scale, fill,
// and safe: with 1, weights that are NaN are 0, those of a query without any key.
//
// FlashAttention returns the result [B, H, Q, E], and of each row of scores the largest one and 1
// over the sum of the exponentials of the differences from it, float32 [B, H, Q, 2]. The inputs of
// FlashAttentionGrad go on with these numbers and the gradient of the result; it returns the
// gradients of q, k and v.
const (
	FlashAttention     = "FlashAttention"
	FlashAttentionGrad = "FlashAttentionGrad"
)

// LeastFlashAttentionOpset is the first opset whose reductions take their axes as an input.
const LeastFlashAttentionOpset = 18

// IsFlashAttention reports whether a function is FlashAttention or its gradient by name, has its
// body, and is written for an opset in which the body means this.
func (f *Function) IsFlashAttention() bool {
	switch {
	case FindOpset(f.Opsets, "") < LeastFlashAttentionOpset:
		return false
	case f.Name == FlashAttention:
		return f.is(flashAttention(0))
	}
	return f.Name == FlashAttentionGrad && f.is(flashAttentionGrad(0))
}

// AddFlashAttention adds the two functions to a model, with the imports and the IR version that
// they need. It fails if the model has others with these names, or too early an opset.
func (m *Model) AddFlashAttention() error {
	v := m.Opset("")
	if v < LeastFlashAttentionOpset {
		return Errorf("opset %d: expected %d or later, whose reductions take axes as an input", v, LeastFlashAttentionOpset)
	}
	if err := m.addOwnOnce(flashAttention(v)); err != nil {
		return err
	}
	return m.addOwnOnce(flashAttentionGrad(v))
}

// flashBody writes the bodies of both functions.
type flashBody struct{ *Graph }

func (b flashBody) node(op, name string, attrs []*Attr, in ...TensorID) TensorID {
	out := b.NewTensor(name)
	b.Nodes = append(b.Nodes, &Node{Op: op, Inputs: in, Outputs: []TensorID{out}, Attrs: attrs})
	return out
}

func (b flashBody) op(op, name string, in ...TensorID) TensorID { return b.node(op, name, nil, in...) }

// numbers is a vector of int64.
func (b flashBody) numbers(name string, v ...int64) TensorID {
	return b.node("Constant", name, []*Attr{intsAttr("value_ints", v...)})
}

// given is an attribute of the call, as a scalar.
func (b flashBody) given(name, value string, t AttrType) TensorID {
	return b.node("Constant", name, []*Attr{{Name: value, Type: t, Ref: name}})
}

// cast converts to a type.
func (b flashBody) cast(name string, x TensorID, to DType) TensorID {
	return b.node("Cast", name, []*Attr{{Name: "to", Type: AttrInt, Int: int64(to)}}, x)
}

// lengths are those of the axes [from, to) of a tensor.
func (b flashBody) lengths(name string, x TensorID, from, to int64) TensorID {
	return b.node("Shape", name, []*Attr{{Name: "end", Type: AttrInt, Int: to}, {Name: "start", Type: AttrInt, Int: from}}, x)
}

func (b flashBody) shape(name string, parts ...TensorID) TensorID {
	return b.node("Concat", name, []*Attr{{Name: "axis", Type: AttrInt}}, parts...)
}

// turned exchanges the last two axes of a tensor with an axis for the heads that share keys.
func (b flashBody) turned(name string, x TensorID) TensorID {
	return b.node("Transpose", name, []*Attr{intsAttr("perm", 0, 1, 2, 4, 3)}, x)
}

// flashScores are tensors of a body, in float32. Those with an axis for the heads that share
// keys are [B, G, H/G, …].
type flashScores struct {
	q, k, v       TensorID // with that axis
	group         TensorID // the shape [B, G, -1]
	whole, parted TensorID // the shapes of the scores, without and with that axis
	scale, zero   TensorID
	last          TensorID // the last axis
	keep          TensorID
	scores        TensorID // scaled, with bias and fill
}

// begin makes the inputs of both functions and the scores.
func (b flashBody) begin() (in []TensorID, s flashScores) {
	for _, name := range []string{"q", "k", "v", "bias", "keep"} {
		in = append(in, b.NewTensor(name))
	}
	q, k, v := in[0], in[1], in[2]
	rest, two := b.numbers("rest", -1), b.numbers("two", 2)
	s.keep, s.last = in[4], rest
	s.group = b.shape("group", b.lengths("groups", k, 0, 2), rest)
	s.q = b.op("Reshape", "q_parted", b.cast("q_wide", q, Float32), b.shape("q_shape", s.group, b.lengths("q_lengths", q, 2, 4)))
	s.k = b.op("Unsqueeze", "k_parted", b.cast("k_wide", k, Float32), two)
	s.v = b.op("Unsqueeze", "v_parted", b.cast("v_wide", v, Float32), two)
	products := b.op("MatMul", "products", s.q, s.k)
	s.parted = b.op("Shape", "parted", products)
	s.whole = b.shape("whole", b.lengths("rows", q, 0, 3), b.lengths("keys", k, 3, 4))
	s.scale = b.given("scale", "value_float", AttrFloat)
	s.zero = b.node("Constant", "zero", []*Attr{{Name: "value_float", Type: AttrFloat}})
	t := b.op("Mul", "scaled", b.op("Reshape", "products_whole", products, s.whole), s.scale)
	t = b.op("Add", "biased", t, b.cast("bias_wide", in[3], Float32))
	s.scores = b.op("Where", "scores", s.keep, t, b.given("fill", "value_float", AttrFloat))
	return in, s
}

// safe replaces weights that are NaN by 0, if the call says so.
func (b flashBody) safe(weights TensorID, s flashScores) TensorID {
	replace := b.op("And", "replaced", b.op("IsNaN", "undefined", weights), b.cast("replace", b.given("safe", "value_int", AttrInt), Bool))
	return b.op("Where", "weights", replace, s.zero, weights)
}

func (b flashBody) function(name string, version int64, in, out []TensorID) *Function {
	b.Inputs, b.Outputs = in, out
	b.Link()
	return &Function{
		Domain: SwapDomain, Name: name, Attrs: []string{"fill", "safe", "scale"}, Opsets: []Opset{{Version: version}}, Body: b.Graph,
	}
}

// keepDims is the attribute of reductions that keep their axis.
func keepDims(keep int64) []*Attr { return []*Attr{{Name: "keepdims", Type: AttrInt, Int: keep}} }

func flashAttention(version int64) *Function {
	b := flashBody{&Graph{}}
	in, s := b.begin()
	most := b.node("ReduceMax", "most", keepDims(1), s.scores, s.last)
	exps := b.op("Exp", "exponentials", b.op("Sub", "differences", s.scores, most))
	part := b.op("Reciprocal", "part", b.node("ReduceSum", "sum", keepDims(1), exps, s.last))
	weights := b.safe(b.op("Mul", "shares", exps, part), s)
	y := b.op("MatMul", "y_parted", b.op("Reshape", "weights_parted", weights, s.parted), s.v)
	y = b.op("Reshape", "y_whole", y, b.shape("y_shape", b.lengths("y_rows", in[0], 0, 3), b.lengths("y_size", in[2], 3, 4)))
	rows := b.node("Concat", "statistics", []*Attr{{Name: "axis", Type: AttrInt, Int: -1}}, most, part)
	return b.function(FlashAttention, version, in, []TensorID{b.op("CastLike", "y", y, in[0]), rows})
}

func flashAttentionGrad(version int64) *Function {
	b := flashBody{&Graph{}}
	in, s := b.begin()
	rows, dy := b.NewTensor("statistics"), b.NewTensor("dy")
	column := func(name string, i int64) TensorID {
		return b.node("Gather", name, []*Attr{{Name: "axis", Type: AttrInt, Int: -1}}, rows, b.numbers(name+"_at", i))
	}
	exps := b.op("Exp", "exponentials", b.op("Sub", "differences", s.scores, column("most", 0)))
	weights := b.safe(b.op("Mul", "shares", exps, column("part", 1)), s)
	d := b.op("Reshape", "dy_parted", b.cast("dy_wide", dy, Float32), b.shape("dy_shape", s.group, b.lengths("dy_lengths", dy, 2, 4)))
	dWeights := b.op("Reshape", "dweights", b.op("MatMul", "dweights_parted", d, b.turned("v_turned", s.v)), s.whole)
	mean := b.node("ReduceSum", "mean", keepDims(1), b.op("Mul", "weighted", weights, dWeights), s.last)
	ds := b.op("Mul", "dscores_all", weights, b.op("Sub", "centred", dWeights, mean))
	ds = b.op("Mul", "dproducts", b.op("Where", "dscores", s.keep, ds, s.zero), s.scale)
	ds = b.op("Reshape", "dproducts_parted", ds, s.parted)
	dq := b.op("Reshape", "dq_whole", b.op("MatMul", "dq_parted", ds, b.turned("k_turned", s.k)), b.op("Shape", "q_whole", in[0]))
	two := b.numbers("heads", 2)
	summed := func(name string, x TensorID) TensorID { return b.node("ReduceSum", name, keepDims(0), x, two) }
	dk := summed("dk_wide", b.op("MatMul", "dk_parted", b.turned("q_turned", s.q), ds))
	dv := summed("dv_wide", b.op("MatMul", "dv_parted", b.turned("weights_turned", b.op("Reshape", "weights_parted", weights, s.parted)), d))
	return b.function(FlashAttentionGrad, version, append(in, rows, dy), []TensorID{
		b.op("CastLike", "dq", dq, in[0]), b.op("CastLike", "dk", dk, in[1]), b.op("CastLike", "dv", dv, in[2]),
	})
}
