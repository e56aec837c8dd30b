package rowmap

func init() {
	register(likeFirst, "Relu", "LeakyRelu", "ThresholdedRelu", "Elu", "Celu", "Selu", "Gelu", "Mish", "Swish", "Sigmoid", "HardSigmoid",
		"HardSwish", "Tanh", "Softplus", "Softsign", "Shrink", "Clip", "Identity", "Cast", "CastLike", "IsNaN", "IsInf", "Not", "BitwiseNot",
		"Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
		"Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "ScaledTanh", "Scale", "ParametricSoftplus", "com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu")
	register(broadcast, "PRelu", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr",
		"BitwiseXor", "BitShift", "Where", "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Mean", "Min", "Max")
	register(quantizedPair, "com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
	register(quantizer, "QuantizeLinear", "DequantizeLinear", "com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
	register(dropout, "Dropout")
	register(expand, "Expand")
	register(tile, "Tile")
	register(constantOfShape, "ConstantOfShape")
}

// each gives all axes of a list of letters a letter of their own, from first on.
func each(list []letter, first letter) {
	for k := range list {
		list[k] = first + letter(k)
	}
}

// likeFirst: each element is computed from the element of input 0 at its place. The
// other inputs are read whole.
func likeFirst(n *Node, s *sheet) bool {
	if len(n.Out[0].Shape) != len(n.In[0].Shape) {
		return false
	}
	each(s.in[0], 1)
	for k, a := range n.Out {
		if a.Present && len(a.Shape) == len(n.In[0].Shape) {
			each(s.out[k], 1)
		}
	}
	return true
}

// aligned gives the axes of an input that is broadcast to a tensor their letters: the
// last axes of both belong together, but an axis of one element is read whole.
func aligned(n *Node, s *sheet, input int, to []letter) {
	if !n.has(input) {
		return
	}
	shape, off := n.In[input].Shape, len(to)-len(n.In[input].Shape)
	for k, d := range shape {
		if d != 1 && off+k >= 0 {
			s.in[input][k] = to[off+k]
		}
	}
}

// broadcast: elementwise operators of several inputs.
func broadcast(n *Node, s *sheet) bool {
	if n.Version < 7 { // broadcasting had an attribute
		return false
	}
	each(s.out[0], 1)
	for i := range n.In {
		aligned(n, s, i, s.out[0])
	}
	return true
}

// dropout changes nothing in inference.
func dropout(n *Node, s *sheet) bool {
	training := n.has(2) && !(n.In[2].Known && len(n.In[2].Ints) == 1 && n.In[2].Ints[0] == 0)
	if n.Version < 7 {
		training = n.integer("is_test", 0) == 0
	}
	return !training && likeFirst(n, s)
}

// expand: a copy states its shape.
func expand(n *Node, s *sheet) bool {
	each(s.out[0], 1)
	aligned(n, s, 0, s.out[0])
	clear(s.in[1])
	for _, l := range s.out[0] {
		s.changes[l] = func(axis int, lo, hi int64) Change {
			return Change{Inputs: map[int][]int64{1: n.shapeBut(axis, hi-lo)}}
		}
	}
	return true
}

// tile: an axis that is not repeated, or of one element that is.
func tile(n *Node, s *sheet) bool {
	if n.Version < 6 || len(n.In) < 2 {
		return false
	}
	for k, l := range n.Out[0].Shape {
		one := letter(k + 1)
		switch repeats := n.In[1]; {
		case n.length(0, k) == l:
			s.in[0][k], s.out[0][k] = one, one
		case n.length(0, k) == 1 && repeats.Known && len(repeats.Ints) == len(n.Out[0].Shape):
			s.out[0][k] = one
			s.changes[one] = func(axis int, lo, hi int64) Change {
				list := append([]int64{}, repeats.Ints...)
				list[axis] = hi - lo
				return Change{Inputs: map[int][]int64{1: list}}
			}
		}
	}
	return true
}

// constantOfShape: a copy states its shape.
func constantOfShape(n *Node, s *sheet) bool {
	each(s.out[0], 1)
	for _, l := range s.out[0] {
		s.changes[l] = func(axis int, lo, hi int64) Change {
			return Change{Inputs: map[int][]int64{0: n.shapeBut(axis, hi-lo)}}
		}
	}
	return true
}

// quantizedPair: each operand is followed by its scale and its zero point.
func quantizedPair(n *Node, s *sheet) bool {
	each(s.out[0], 1)
	aligned(n, s, 0, s.out[0])
	aligned(n, s, 3, s.out[0])
	return true
}

// quantizer: scales and zero points belong to all elements, or to positions of an axis.
// Blocks of these are not divided.
func quantizer(n *Node, s *sheet) bool {
	if len(n.In) < 2 || !likeFirst(n, s) {
		return false
	}
	if n.single(1) {
		return true
	}
	rank := len(s.in[0])
	axis := n.axis("axis", 1, rank)
	if rank == 1 {
		axis = 0
	}
	if axis == Whole || n.Version >= 21 && n.integer("block_size", 0) > 0 {
		return false
	}
	for i := 1; i < 3; i++ {
		if n.has(i) && !n.single(i) && len(s.in[i]) == 1 {
			s.in[i][0] = s.in[0][axis]
		}
	}
	return true
}
