package randmodel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var elementwise = []block{
	{weight: 4, add: (*scope).activation},
	{weight: 4, add: (*scope).activation},
	{weight: 4, add: (*scope).residual},
	{weight: 4, add: (*scope).residual},
	{weight: 3, add: (*scope).withConstant},
	{weight: 1, add: (*scope).several},
	{weight: 1, add: (*scope).where},
	{weight: 1, add: (*scope).casts},
	{weight: 2, microsoft: true, add: (*scope).contribBias},
}

// activation adds an activation.
func (s *scope) activation() bool {
	v, ok := s.float(1, 2, 3, 4, 5)
	if !ok {
		return false
	}
	type kind struct {
		op    string
		attrs []*graph.Attr
		since int64
	}
	k := choose(s.drawing, []kind{
		{"Relu", nil, 7},
		{"Relu", nil, 7},
		{"LeakyRelu", attrs("alpha", 0.1), 7},
		{"Elu", nil, 7},
		{"Selu", nil, 7},
		{"Sigmoid", nil, 7},
		{"Tanh", nil, 7},
		{"Softplus", nil, 7},
		{"Softsign", nil, 7},
		{"Neg", nil, 7},
		{"Abs", nil, 7},
		{"HardSigmoid", nil, 7},
		{"Erf", nil, 9},
		{"HardSwish", nil, 14},
		{"Gelu", nil, 20},
		{"Mish", nil, 18},
		{"Sin", nil, 7},
		{"Atan", nil, 7},
		{"Identity", nil, 7},
		{"ThresholdedRelu", attrs("alpha", 0.2), 10},
		{"Celu", nil, 12},
		{"Shrink", attrs("lambd", 0.1), 9},
		{"Dropout", nil, 7},
		{"Clip", nil, 7},
		{"PRelu", nil, 7},
	}...)
	switch {
	case k.since > s.opset:
		return false
	case k.op == "Clip" && s.opset < 11:
		s.unary("Clip", attrs("min", -0.5, "max", 0.75), v)
	case k.op == "Clip":
		s.unary("Clip", nil, v, s.scalar(graph.Float32, -0.5), choose(s.drawing, left, s.scalar(graph.Float32, 0.75)))
	case k.op == "PRelu":
		if v.rank() < 2 {
			return false
		}
		shape := make([]int64, v.rank()-1)
		for i := range shape {
			shape[i] = 1
		}
		if v.free(1) {
			return false
		}
		shape[0] = v.shape[1]
		s.unary("PRelu", nil, v, s.floats(0.2, 0.1, shape...))
	default:
		s.unary(k.op, k.attrs, v)
	}
	return true
}

// residual adds two values of the same shape.
func (s *scope) residual() bool {
	v, ok := s.float(1, 2, 3, 4, 5)
	if !ok {
		return false
	}
	w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.is(v.shape, v.symbols) && w.id != v.id })
	if !ok {
		return false
	}
	s.unary(choose(s.drawing, "Add", "Add", "Add", "Sub", "Mul", "Max"), nil, v, w)
	return true
}

// several adds a node of several operands.
func (s *scope) several() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	list := []value{v}
	for range 1 + s.r.IntN(3) {
		w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.is(v.shape, v.symbols) })
		if ok {
			list = append(list, w)
		}
	}
	ops := []string{"Sum", "Mean"}
	if s.opset >= 8 {
		ops = append(ops, "Max", "Min")
	}
	s.unary(choose(s.drawing, ops...), nil, list...)
	return true
}

// withConstant adds an operator whose other operand is a constant that may be broadcast.
func (s *scope) withConstant() bool {
	v, ok := s.float(1, 2, 3, 4, 5)
	if !ok {
		return false
	}
	shape := slices.Clone(v.shape)
	for i := range shape {
		if v.free(i) || s.one(2) {
			shape[i] = 1
		}
	}
	shape = shape[s.r.IntN(len(shape)+1):]
	c := s.floats(0.5, 0.3, shape...)
	switch s.r.IntN(5) {
	case 0:
		s.unary("Mul", nil, v, c)
	case 1:
		s.node("", "Sub", nil, []value{c, v}, v.like())
	case 2:
		s.unary("Div", nil, v, s.floats(2, 0.1, shape...))
	default:
		s.node("", choose(s.drawing, "Add", "Mul"), nil, choose(s.drawing, []value{v, c}, []value{c, v}), v.like())
	}
	return true
}

// where adds a choice between two values.
func (s *scope) where() bool {
	v, ok := s.float(2, 3, 4)
	if !ok || s.opset < 9 {
		return false
	}
	w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.is(v.shape, v.symbols) })
	if !ok {
		return false
	}
	more := s.hidden("", choose(s.drawing, "Greater", "Less"), nil, []value{v, s.scalar(graph.Float32, 0)}, result{graph.Bool, v.shape, v.symbols})[0]
	if s.one(3) {
		more = s.hidden("", "Not", nil, []value{more}, more.like())[0]
	}
	s.node("", "Where", nil, []value{more, v, w}, v.like())
	return true
}

// casts adds nodes in another type of reals.
func (s *scope) casts() bool {
	v, ok := s.float(1, 2, 3, 4)
	if !ok || s.opset < 9 {
		return false
	}
	elem := choose(s.drawing, graph.Float64, graph.Float16)
	w := s.hidden("", "Cast", attrs("to", int64(elem)), []value{v}, result{elem, v.shape, v.symbols})[0]
	for range s.r.IntN(3) {
		w = s.hidden("", choose(s.drawing, "Relu", "Neg", "Tanh"), nil, []value{w}, w.like())[0]
	}
	s.node("", "Cast", attrs("to", int64(graph.Float32)), []value{w}, v.like())
	return true
}

// contribBias adds a contrib operator with a bias, or one of its like.
func (s *scope) contribBias() bool {
	v, ok := s.float(2, 3)
	if !ok || v.free(v.rank()-1) {
		return false
	}
	n := v.shape[v.rank()-1]
	switch s.r.IntN(5) {
	case 0:
		s.node(microsoft, "BiasGelu", nil, []value{v, s.floats(0, 0.3, n)}, v.like())
	case 1:
		s.node(microsoft, "FastGelu", nil, []value{v, s.floats(0, 0.3, n)}, v.like())
	case 2:
		s.node(microsoft, choose(s.drawing, "Gelu", "FastGelu", "QuickGelu"), nil, []value{v}, v.like())
	case 3:
		w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.is(v.shape, v.symbols) })
		if !ok || v.rank() != 3 {
			return false
		}
		inputs := []value{v, w, s.floats(1, 0.2, n), s.floats(0, 0.2, n)}
		if s.one(2) {
			inputs = append(inputs, s.floats(0, 0.2, n))
		}
		if s.one(3) { // with the sum
			s.node(microsoft, "SkipLayerNormalization", nil, inputs, v.like(), result{}, result{}, v.like())
			return true
		}
		s.node(microsoft, "SkipLayerNormalization", nil, inputs, v.like())
	default:
		m := s.between(2, 9)
		shape, symbols := v.with(v.rank()-1, m)
		s.node(microsoft, "FusedMatMul", attrs("alpha", 0.5, "transB", 1), []value{v, s.weight(n, m, n)}, result{v.elem, shape, symbols})
	}
	return true
}
