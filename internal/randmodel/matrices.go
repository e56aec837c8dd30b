package randmodel

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var matrices = []block{
	{weight: 3, add: (*scope).product},
	{weight: 3, add: (*scope).gemm},
	{weight: 2, add: (*scope).matMul},
	{weight: 2, since: 17, add: (*scope).layerNorm},
	{weight: 2, add: (*scope).softmax},
	{weight: 2, add: (*scope).attention},
	{weight: 2, microsoft: true, add: (*scope).contribAttention},
	{weight: 1, since: 12, add: (*scope).einsum},
}

// product multiplies a value by a weight.
func (s *scope) product() bool {
	v, ok := s.float(2, 3, 3, 4)
	if !ok || v.free(v.rank()-1) {
		return false
	}
	last := v.rank() - 1
	n, m := v.shape[last], choose(s.drawing, v.shape[last], s.between(1, 16))
	shape, symbols := v.with(last, m)
	if product(shape) > most {
		return false
	}
	y := s.node("", "MatMul", nil, []value{v, s.weight(n, n, m)}, result{v.elem, shape, symbols})[0]
	if s.one(2) {
		y = s.node("", "Add", nil, choose(s.drawing, []value{y, s.floats(0, 0.2, m)}, []value{s.floats(0, 0.2, m), y}), y.like())[0]
	}
	if s.one(3) {
		s.unary(choose(s.drawing, "Relu", "Tanh", "Sigmoid"), nil, y)
	}
	return true
}

// gemm adds a Gemm.
func (s *scope) gemm() bool {
	v, ok := s.float(2)
	if !ok || v.free(1) {
		return false
	}
	n, m := v.shape[1], s.between(1, 16)
	list := attrs()
	shape := []int64{n, m}
	if s.one(2) {
		list, shape = append(list, attrs("transB", 1)...), []int64{m, n}
	}
	if s.one(3) {
		list = append(list, attrs("alpha", 0.5, "beta", 0.7)...)
	}
	inputs := []value{v, s.weight(n, shape...)}
	if s.opset < 11 || s.one(2) {
		inputs = append(inputs, choose(s.drawing, s.floats(0, 0.3, m), s.floats(0, 0.3, 1, m), s.floats(0, 0.3, 1)))
	}
	s.node("", "Gemm", list, inputs, result{v.elem, []int64{v.shape[0], m}, []string{v.symbols[0], ""}})
	return true
}

// matMul multiplies a value by the transpose of another or of itself.
func (s *scope) matMul() bool {
	v, ok := s.float(3, 4)
	if !ok || v.free(v.rank()-1) {
		return false
	}
	last := v.rank() - 1
	w, ok := s.pick(func(w value) bool {
		if w.elem != v.elem || w.rank() != v.rank() || w.free(last-1) || w.free(last) || w.shape[last] != v.shape[last] {
			return false
		}
		return slices.Equal(w.shape[:last-1], v.shape[:last-1]) && slices.Equal(w.symbols[:last-1], v.symbols[:last-1])
	})
	if !ok {
		return false
	}
	perm := make([]int, v.rank())
	for i := range perm {
		perm[i] = i
	}
	perm[last-1], perm[last] = last, last-1
	shape, symbols := v.with(last, w.shape[last-1])
	if product(shape) > most {
		return false
	}
	y := s.hidden("", "MatMul", nil, []value{v, s.transposed(w, perm...)}, result{v.elem, shape, symbols})[0]
	s.unary("Mul", nil, y, s.scalar(graph.Float32, 1/math.Sqrt(float64(v.shape[last]))))
	return true
}

// layerNorm adds a norm of the last axis.
func (s *scope) layerNorm() bool {
	v, ok := s.float(2, 3, 3)
	if !ok || v.free(v.rank()-1) || v.shape[v.rank()-1] < 3 {
		return false
	}
	n := v.shape[v.rank()-1]
	inputs := []value{v, s.floats(1, 0.2, n)}
	if s.one(2) {
		inputs = append(inputs, s.floats(0, 0.2, n))
	}
	s.unary("LayerNormalization", attrs("axis", choose(s.drawing, -1, v.rank()-1), "epsilon", 1e-3), inputs...)
	return true
}

// softmax adds a softmax, of the last axis in old opsets, which flatten.
func (s *scope) softmax() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	axis := v.rank() - 1
	if s.opset >= 13 {
		axis = s.r.IntN(v.rank())
	} else if s.one(3) {
		axis = 1
	}
	s.unary(choose(s.drawing, "Softmax", "Softmax", "LogSoftmax"), attrs("axis", axis), v)
	return true
}

// einsum multiplies along two axes.
func (s *scope) einsum() bool {
	v, ok := s.float(3)
	if !ok || v.free(2) {
		return false
	}
	m := s.between(1, 8)
	shape, symbols := v.with(2, m)
	s.node("", "Einsum", attrs("equation", "abc,cd->abd"), []value{v, s.weight(v.shape[2], v.shape[2], m)}, result{v.elem, shape, symbols})
	return true
}

// sequence draws a value [batch, length, size] with an even size of 4 or more.
func (s *scope) sequence() (value, bool) {
	return s.pick(func(v value) bool {
		return v.elem == graph.Float32 && v.rank() == 3 && !v.free(2) && v.shape[2]%2 == 0 && v.shape[2] >= 4
	})
}

// attention adds attention of some heads in plain nodes.
func (s *scope) attention() bool {
	v, ok := s.sequence()
	if !ok {
		return false
	}
	size, heads := v.shape[2], int64(2)
	width := size / heads
	head := func(perm ...int) value {
		y := s.hidden("", "MatMul", nil, []value{v, s.weight(size, size, size)}, v.like())[0]
		if s.one(2) {
			y = s.hidden("", "Add", nil, []value{y, s.floats(0, 0.2, size)}, y.like())[0]
		}
		return s.transposed(s.reshaped(y, 2, heads, width), perm...)
	}
	q, k, x := head(0, 2, 1, 3), head(0, 2, 3, 1), head(0, 2, 1, 3)
	shape, symbols := slices.Clone(q.shape), slices.Clone(q.symbols)
	shape[3], symbols[3] = k.shape[3], k.symbols[3]
	scores := s.hidden("", "MatMul", nil, []value{q, k}, result{v.elem, shape, symbols})[0]
	scores = s.hidden("", choose(s.drawing, "Mul", "Div"), nil, []value{scores, s.scalar(graph.Float32, 1.5)}, scores.like())[0]
	if s.one(3) && !v.anyFree() {
		scores = s.hidden("", "Add", nil, []value{scores, s.floats(0, 1, scores.shape[2], scores.shape[3])}, scores.like())[0]
	}
	p := s.hidden("", "Softmax", attrs("axis", 3), []value{scores}, scores.like())[0]
	y := s.transposed(s.hidden("", "MatMul", nil, []value{p, x}, x.like())[0], 0, 2, 1, 3)
	y = s.reshaped(y, 2, size)
	y = s.node("", "MatMul", nil, []value{y, s.weight(size, size, size)}, y.like())[0]
	if s.one(2) {
		s.unary("Add", nil, y, v)
	}
	return true
}

// contribAttention adds a node of attention of ONNX Runtime.
func (s *scope) contribAttention() bool {
	v, ok := s.sequence()
	if !ok {
		return false
	}
	size, heads := v.shape[2], int64(2)
	if s.one(2) {
		a := attrs("num_heads", heads)
		if s.one(3) {
			a = append(a, attrs("unidirectional", 1)...)
		}
		s.node(microsoft, "Attention", a, []value{v, s.weight(size, size, 3*size), s.floats(0, 0.2, 3*size)}, v.like())
		return true
	}
	var list []value
	for range 3 {
		list = append(list, s.hidden("", "MatMul", nil, []value{v, s.weight(size, size, size)}, v.like())[0])
	}
	if s.one(2) {
		list = append(list, s.floats(0, 0.2, 3*size))
	}
	s.node(microsoft, "MultiHeadAttention", attrs("num_heads", heads), list, v.like())
	return true
}
