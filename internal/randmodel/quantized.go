package randmodel

import (
	"github.com/onnxmem/onnxmem/graph"
)

var quantized = []block{
	{weight: 2, since: 10, add: (*scope).quantizedConv},
	{weight: 2, since: 10, add: (*scope).quantizedProduct},
	{weight: 2, since: 10, add: (*scope).quantizedPair},
	{weight: 1, since: 10, microsoft: true, add: (*scope).quantizedContrib},
	{weight: 1, since: 11, add: (*scope).dynamicProduct},
}

// scale of activations: they lie in about [-3, 3].
const scale = 0.03

// zero is the zero point of a type.
func zero(elem graph.DType) float64 {
	if elem == graph.Uint8 {
		return 128
	}
	return 0
}

// quantize adds a QuantizeLinear and returns its result with scale and zero point.
func (s *scope) quantize(v value) (q, by, at value) {
	elem := choose(s.drawing, graph.Uint8, graph.Int8)
	by, at = s.scalar(graph.Float32, scale), s.scalar(elem, zero(elem))
	return s.hidden("", "QuantizeLinear", nil, []value{v, by, at}, result{elem, v.shape, v.symbols})[0], by, at
}

// dequantize adds a DequantizeLinear.
func (s *scope) dequantize(q, by, at value) value {
	return s.hidden("", "DequantizeLinear", nil, []value{q, by, at}, result{graph.Float32, q.shape, q.symbols})[0]
}

// quantizedWeight returns a weight of int8 with its scale and zero point; along axis, if it is
// not negative, each row has its own.
func (s *scope) quantizedWeight(axis int, shape ...int64) (w, by, at value) {
	w = s.constant(s.data(graph.Int8, shape, func() float64 { return float64(s.between(-127, 127)) }))
	if axis < 0 {
		return w, s.scalar(graph.Float32, 0.004), s.scalar(graph.Int8, 0)
	}
	n := shape[axis]
	by = s.constant(s.data(graph.Float32, []int64{n}, func() float64 { return 0.002 + 0.004*s.r.Float64() }))
	return w, by, s.constant(s.data(graph.Int8, []int64{n}, func() float64 { return 0 }))
}

// scaled draws along which axis a weight has its scales: -1 for one scale of all of it.
func (s *scope) scaled(axis int) int {
	if axis = choose(s.drawing, -1, axis); s.opset < 13 {
		return -1
	}
	return axis
}

// realWeight adds a DequantizeLinear of such a weight.
func (s *scope) realWeight(axis int, w, by, at value) value {
	var list []*graph.Attr
	if axis >= 0 {
		list = attrs("axis", axis)
	}
	return s.hidden("", "DequantizeLinear", list, []value{w, by, at}, result{graph.Float32, w.shape, nil})[0]
}

// quantizedPair adds a pair of nodes that round a value, perhaps with moves between them.
func (s *scope) quantizedPair() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	q, by, at := s.quantize(v)
	if s.opset >= 13 && s.one(3) {
		q = s.transposed(q, s.r.Perm(v.rank())...)
	}
	s.all = append(s.all, s.dequantize(q, by, at))
	return true
}

// quantizedConv adds a convolution of bytes, as QLinearConv or between pairs.
func (s *scope) quantizedConv() bool {
	v, ok := s.float(4, 4, 3)
	if !ok || v.free(1) {
		return false
	}
	w, groups, r, ok := s.convolved(v)
	if !ok {
		return false
	}
	out := r.shape[1]
	list := append(w.attrs, attrs("group", groups)...)
	per := v.shape[1] / groups
	axis := s.scaled(0)
	q, by, at := s.quantize(v)
	weight, wby, wat := s.quantizedWeight(axis, append([]int64{out, per}, w.kernel...)...)
	if s.one(2) {
		elem := q.elem
		inputs := []value{q, by, at, weight, wby, wat, s.scalar(graph.Float32, scale), s.scalar(elem, zero(elem))}
		if s.one(2) {
			inputs = append(inputs, s.constant(s.data(graph.Int32, []int64{out}, func() float64 { return float64(s.between(-500, 500)) })))
		}
		y := s.hidden("", "QLinearConv", list, inputs, result{elem, r.shape, r.symbols})[0]
		s.all = append(s.all, s.dequantize(y, inputs[6], inputs[7]))
		return true
	}
	x := s.dequantize(q, by, at)
	inputs := []value{x, s.realWeight(axis, weight, wby, wat)}
	if s.one(2) {
		inputs = append(inputs, s.floats(0, 0.2, out))
	}
	y := s.hidden("", "Conv", list, inputs, r)[0]
	if s.one(2) {
		y = s.hidden("", "Relu", nil, []value{y}, y.like())[0]
	}
	q, by, at = s.quantize(y)
	s.all = append(s.all, s.dequantize(q, by, at))
	return true
}

// projected draws a value of floats for a product with a weight of n x m; r is the result.
func (s *scope) projected() (v value, r result, n, m int64, ok bool) {
	v, ok = s.float(2, 3)
	last := v.rank() - 1
	if !ok || v.free(last) {
		return v, r, 0, 0, false
	}
	n, m = v.shape[last], s.between(1, 12)
	r.elem = v.elem
	r.shape, r.symbols = v.with(last, m)
	return v, r, n, m, true
}

// quantizedProduct adds a product of bytes.
func (s *scope) quantizedProduct() bool {
	v, r, n, m, ok := s.projected()
	if !ok {
		return false
	}
	q, by, at := s.quantize(v)
	switch s.r.IntN(3) {
	case 0:
		w, wby, wat := s.quantizedWeight(-1, n, m)
		inputs := []value{q, by, at, w, wby, wat, s.scalar(graph.Float32, scale), s.scalar(q.elem, zero(q.elem))}
		y := s.hidden("", "QLinearMatMul", nil, inputs, result{q.elem, r.shape, r.symbols})[0]
		s.all = append(s.all, s.dequantize(y, inputs[6], inputs[7]))
	case 1:
		w, _, wat := s.quantizedWeight(-1, n, m)
		y := s.hidden("", "MatMulInteger", nil, []value{q, w, at, wat}, result{graph.Int32, r.shape, r.symbols})[0]
		y = s.hidden("", "Cast", attrs("to", int64(graph.Float32)), []value{y}, result{graph.Float32, r.shape, r.symbols})[0]
		s.unary("Mul", nil, y, s.scalar(graph.Float32, scale*0.004))
	default:
		x := s.dequantize(q, by, at)
		axis := s.scaled(1)
		w, wby, wat := s.quantizedWeight(axis, n, m)
		f := s.realWeight(axis, w, wby, wat)
		y := s.hidden("", "MatMul", nil, []value{x, f}, result{graph.Float32, r.shape, r.symbols})[0]
		q, by, at = s.quantize(y)
		s.all = append(s.all, s.dequantize(q, by, at))
	}
	return true
}

// quantizedContrib adds sums, products and joins of bytes.
func (s *scope) quantizedContrib() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	q, by, at := s.quantize(v)
	oby, oat := s.scalar(graph.Float32, 2*scale), s.scalar(q.elem, zero(q.elem))
	switch s.r.IntN(4) {
	case 0:
		w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.is(v.shape, v.symbols) })
		if !ok {
			w = v
		}
		p := s.hidden("", "QuantizeLinear", nil, []value{w, by, at}, q.like())[0]
		y := s.hidden(microsoft, choose(s.drawing, "QLinearAdd", "QLinearMul"), nil, []value{q, by, at, p, by, at, oby, oat}, q.like())[0]
		s.all = append(s.all, s.dequantize(y, oby, oat))
	case 1:
		y := s.hidden(microsoft, "QLinearSigmoid", nil, []value{q, by, at, oby, oat}, q.like())[0]
		s.all = append(s.all, s.dequantize(y, oby, oat))
	case 2:
		y := s.hidden(microsoft, "QLinearLeakyRelu", attrs("alpha", 0.1), []value{q, by, at, oby, oat}, q.like())[0]
		s.all = append(s.all, s.dequantize(y, oby, oat))
	default:
		if v.rank() != 4 {
			return true // the quantized value is dead
		}
		shape, symbols := v.with(2, 1)
		shape[3], symbols[3] = 1, ""
		y := s.hidden(microsoft, "QLinearGlobalAveragePool", nil, []value{q, by, at, by, at}, result{q.elem, shape, symbols})[0]
		s.all = append(s.all, s.dequantize(y, by, at))
	}
	return true
}

// dynamicProduct adds a product whose scale depends on the data.
func (s *scope) dynamicProduct() bool {
	v, r, n, m, ok := s.projected()
	if !ok {
		return false
	}
	q := s.hidden("", "DynamicQuantizeLinear", nil, []value{v}, result{graph.Uint8, v.shape, v.symbols}, result{graph.Float32, []int64{}, nil}, result{graph.Uint8, []int64{}, nil})
	w, wby, wat := s.quantizedWeight(-1, n, m)
	y := s.hidden("", "MatMulInteger", nil, []value{q[0], w, q[2], wat}, result{graph.Int32, r.shape, r.symbols})[0]
	y = s.hidden("", "Cast", attrs("to", int64(graph.Float32)), []value{y}, result{graph.Float32, r.shape, r.symbols})[0]
	by := s.hidden("", "Mul", nil, []value{q[1], wby}, result{graph.Float32, []int64{}, nil})[0]
	s.unary("Mul", nil, y, by)
	return true
}
