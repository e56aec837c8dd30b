package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestQuantize(t *testing.T) {
	x, q, s := arg(f32, 2, 6), arg(graph.Int8, 2, 6), arg(f32)
	f16 := graph.Float16
	dtype := func(d graph.DType) *graph.Attr { return attrInt("output_dtype", int64(d)) }
	runCases(t, []opCase{
		{doc: "uint8 by default", op: "QuantizeLinear", in: []Arg{x, s}, want: "uint8[2,6]"},
		{doc: "as the zero point", op: "QuantizeLinear", in: []Arg{x, s, arg(graph.Int16)}, want: "int16[2,6]"},
		{doc: "as stated", op: "QuantizeLinear", in: []Arg{x, s}, attrs: attrs(dtype(graph.Int4)), want: "int4[2,6]"},
		{doc: "stated twice", op: "QuantizeLinear", in: []Arg{x, s, arg(graph.Int8)}, attrs: attrs(dtype(graph.Int4)), want: "error: expected int8 as the zero point"},
		{doc: "opset 20 does not state it", op: "QuantizeLinear", version: 20, in: []Arg{x, s}, attrs: attrs(dtype(graph.Int4)), want: "uint8[2,6]"},
		{doc: "a scale per place", op: "QuantizeLinear", in: []Arg{x, arg(f32, 6)}, want: "uint8[2,6]"},
		{doc: "a scale too few", op: "QuantizeLinear", in: []Arg{x, arg(f32, 5)}, want: "error: one scale or [6], to match axis 1 of input 0 [2,6]"},
		{doc: "a scale per place of another axis", op: "QuantizeLinear", in: []Arg{x, arg(f32, 2)}, attrs: attrs(attrInt("axis", -2)), want: "uint8[2,6]"},
		{doc: "no such axis", op: "QuantizeLinear", in: []Arg{x, arg(f32, 2)}, attrs: attrs(attrInt("axis", 2)), want: "error: axis is 2"},
		{doc: "blocks", op: "QuantizeLinear", in: []Arg{x, arg(f32, 2, 2)}, attrs: attrs(attrInt("block_size", 4)), want: "uint8[2,6]"},
		{doc: "blocks too many", op: "QuantizeLinear", in: []Arg{x, arg(f32, 2, 3)}, attrs: attrs(attrInt("block_size", 4)), want: "error: [2,2]"},
		{doc: "zero points as scales", op: "QuantizeLinear", in: []Arg{x, arg(f32, 6), arg(graph.Int8, 5)}, want: "error: expected [6] as the scale"},
		{doc: "back as the scale", op: "DequantizeLinear", in: []Arg{q, arg(f16)}, want: "float16[2,6]"},
		{doc: "back as stated", op: "DequantizeLinear", in: []Arg{q, s}, attrs: attrs(dtype(f16)), want: "float16[2,6]"},
		{doc: "back from int32", op: "DequantizeLinear", in: []Arg{arg(graph.Int32, 6), s}, want: "float32[6] over 0<0"},
		{doc: "the zero point has another type", op: "DequantizeLinear", in: []Arg{q, s, arg(graph.Uint8)}, want: "error: expected int8 as input 0"},
		{doc: "three outputs", op: "DynamicQuantizeLinear", in: []Arg{x}, outs: 3, want: "uint8[2,6], float32[], uint8[]"},
		{doc: "ONNX Runtime's", op: "com.microsoft.QuantizeLinear", version: 1, in: []Arg{x, arg(f32, 6), arg(graph.Uint16, 6)}, want: "uint16[2,6]"},
	})
}

func TestQLinear(t *testing.T) {
	s, z := arg(f32), arg(graph.Uint8)
	q := func(dims ...graph.Dim) Arg { return arg(graph.Uint8, dims...) }
	unary := func(x Arg) []Arg { return []Arg{x, s, z, s, z} }
	binary := func(a, b Arg) []Arg { return []Arg{a, s, z, b, s, z, s, z} }
	pool := attrInts("kernel_shape", 2, 2)
	runCases(t, []opCase{
		{doc: "both broadcast", op: "com.microsoft.QLinearAdd", version: 1, in: binary(q(2, 3), q(3)), want: "uint8[2,3] over 0<0"},
		{doc: "over either", op: "com.microsoft.QLinearMul", version: 1, in: binary(q(2, 3), q(2, 3)), want: "uint8[2,3] over 0<0 0<3"},
		{doc: "two types", op: "com.microsoft.QLinearMul", version: 1, in: binary(q(2, 3), arg(graph.Int8, 3)), want: "error: expected uint8"},
		{doc: "a zero point left out", op: "com.microsoft.QLinearAdd", version: 1, in: []Arg{q(3), s, {}, q(3), s, {}, s}, want: "uint8[3] over 0<0 0<3"},
		{doc: "the second tensor is missing", op: "com.microsoft.QLinearAdd", version: 1, in: []Arg{q(3), s, z}, want: "error: input 3 is missing"},
		{doc: "unary", op: "com.microsoft.QLinearSigmoid", version: 1, in: unary(q(2, 3)), want: "uint8[2,3] over 0<0"},
		{doc: "softmax", op: "com.microsoft.QLinearSoftmax", version: 1, in: unary(q(2, 3)), attrs: attrs(attrInt("axis", 2)), want: "error: axis is 2"},
		{doc: "branches", op: "com.microsoft.QLinearWhere", version: 1, in: []Arg{arg(graph.Bool, 3), q(3), s, z, q(), s, z, s, z}, want: "uint8[3] over 0<1"},
		{doc: "parts", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s, z, q(2, 3), s, z, q(2, graph.AtMost(4)), s, z}, attrs: attrs(attrInt("axis", 1)), want: "uint8[2,<=7]"},
		{doc: "parts that do not fit", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s, z, q(2, 3), s, z, q(3, 3), s, z}, attrs: attrs(attrInt("axis", 1)), want: "error: expected 2 along axis 0"},
		{doc: "half a part", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s, z, q(2, 3), s, z, q(3, 3), s}, attrs: attrs(attrInt("axis", 1)), want: "error: 3 for each part"},
		{doc: "windows", op: "com.microsoft.QLinearAveragePool", version: 1, in: unary(q(1, 3, 8, 9)), attrs: attrs(pool), want: "uint8[1,3,7,8]"},
		{doc: "windows, channels last", op: "com.microsoft.QLinearAveragePool", version: 1, in: unary(q(1, 8, 9, 3)), attrs: attrs(pool, attrInt("channels_last", 1)), want: "uint8[1,7,8,3]"},
		{doc: "one window", op: "com.microsoft.QLinearGlobalAveragePool", version: 1, in: unary(q(1, 3, 8, 9)), want: "uint8[1,3,1,1]"},
		{doc: "one window, channels last", op: "com.microsoft.QLinearGlobalAveragePool", version: 1, in: unary(q(1, 8, 9, 3)), attrs: attrs(attrInt("channels_last", 1)), want: "uint8[1,1,1,3]"},
	})
}

// Checks that precede the kernels of quantized products and convolutions.
func TestCheckQuantized(t *testing.T) {
	u8, i8 := graph.Uint8, graph.Int8
	q := func(dims ...graph.Dim) Arg { return arg(u8, dims...) }
	s := func(dims ...graph.Dim) Arg { return arg(f32, dims...) }
	a, b := q(5, 2, 3), q(5, 3, 4)
	byteMul := func(za, zb Arg) []Arg { return []Arg{a, b, za, zb} }
	linear := func(sa, za, sb, zb, sy, zy Arg) []Arg { return []Arg{a, sa, za, b, sb, zb, sy, zy} }
	image, kernel := q(1, 2, 8, 8), q(4, 2, 3, 3)
	conv := func(sx, zx, sw, zw, sy, zy Arg) []Arg {
		return []Arg{image, sx, zx, kernel, sw, zw, sy, zy, arg(graph.Int32, 4)}
	}
	runGate(t, []opCase{
		{doc: "no zero points", op: "MatMulInteger", in: []Arg{a, b}},
		{doc: "one of each", op: "MatMulInteger", in: byteMul(q(), q(1))},
		{doc: "lists", op: "MatMulInteger", in: byteMul(q(2), q(4))},
		{doc: "one for each row and column of each matrix", op: "MatMulInteger", in: byteMul(q(5, 2, 1), q(5, 1, 4))},
		{doc: "as many as the depth", op: "MatMulInteger", in: byteMul(q(3), q()), want: "error: input 2 has shape [3], expected one element, [2] or [5,2,1]: one for each row of input 0"},
		{doc: "none", op: "MatMulInteger", in: byteMul(q(), q(0)), want: "error: input 3 has shape [0], expected one element, [4] or [5,1,4]: one for each column of input 1"},
		{doc: "those of rows for columns", op: "MatMulInteger", in: byteMul(q(), q(5, 4, 1)), want: "error: input 3"},
		{doc: "a batch too few", op: "MatMulInteger", in: byteMul(q(1, 2, 1), q()), want: "error: input 2"},
		{doc: "a row is a vector", op: "MatMulInteger", in: []Arg{q(3), b, q(3)}, want: "error: input 2 has shape [3], expected one element"},

		{doc: "right", op: "QLinearMatMul", in: linear(s(2), q(2), s(5, 1, 4), q(5, 1, 4), s(), q())},
		{doc: "rows", op: "QLinearMatMul", in: linear(s(3), q(3), s(), q(), s(), q()), want: "error: input 1 has shape [3]"},
		{doc: "one scale and zero points of columns", op: "QLinearMatMul", in: linear(s(), q(), s(), q(4), s(), q())},
		{doc: "columns", op: "QLinearMatMul", in: linear(s(), q(), s(4), q(2), s(), q()), want: "error: input 5 has shape [2]"},
		{doc: "no scale of the output", op: "QLinearMatMul", in: linear(s(), q(), s(), q(), s(0), q()), want: "error: input 6 has shape [0], expected one element"},
		{doc: "zero points of the output", op: "QLinearMatMul", in: linear(s(), q(), s(), q(), s(), q(2)), want: "error: input 7 has shape [2], expected one element"},

		{doc: "one for each output channel", op: "ConvInteger", in: []Arg{image, kernel, q(), q(4)}},
		{doc: "more than one of the image", op: "ConvInteger", in: []Arg{image, kernel, q(2), q(4)}, want: "error: input 2 has shape [2], expected one element"},
		{doc: "one for each input channel", op: "ConvInteger", in: []Arg{image, kernel, q(), q(2)}, want: "error: input 3 has shape [2], expected one element or [4]: one for each output channel"},
		{doc: "right", op: "QLinearConv", in: conv(s(), q(), s(4), q(4), s(), q())},
		{doc: "no scale of the image", op: "QLinearConv", in: conv(s(0), q(), s(4), q(4), s(), q()), want: "error: input 1 has shape [0]"},
		{doc: "no zero point of the image", op: "QLinearConv", in: conv(s(), q(0), s(4), q(4), s(), q()), want: "error: input 2 has shape [0]"},
		{doc: "two axes of scales", op: "QLinearConv", in: conv(s(), q(), s(4, 1), q(4), s(), q()), want: "error: input 4 has shape [4,1]"},
		{doc: "one scale and zero points of channels", op: "QLinearConv", in: conv(s(), q(), s(), q(4), s(), q())},
		{doc: "zero points too few", op: "QLinearConv", in: conv(s(), q(), s(), q(3), s(), q()), want: "error: input 5 has shape [3]"},
		{doc: "no scale of the output", op: "QLinearConv", in: conv(s(), q(), s(), q(), s(0), q()), want: "error: input 6 has shape [0]"},
		{doc: "two zero points of the output", op: "QLinearConv", in: conv(s(), q(), s(), q(), s(), q(2)), want: "error: input 7 has shape [2]"},

		{doc: "sums", op: "com.microsoft.QLinearAdd", version: 1, in: []Arg{q(2, 3), s(), q(), q(3), s(1), q(1), s(), q()}},
		{doc: "a scale for each column", op: "com.microsoft.QLinearAdd", version: 1, in: []Arg{q(2, 3), s(3), q(), q(3), s(), q(), s(), q()}, want: "error: input 1 has shape [3], expected one element"},
		{doc: "a part without its scale", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s(), q(), q(2, 3), {}, q()}, attrs: attrs(attrInt("axis", 1)), want: "error: input 3 is missing"},
		{doc: "a part of another type", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s(), q(), arg(i8, 2, 3), s(), q()}, attrs: attrs(attrInt("axis", 1)), want: "error: input 2 has elements of type int8, expected uint8 as input 1"},
		{doc: "a scale that is none", op: "com.microsoft.QLinearConcat", version: 1, in: []Arg{s(), q(), q(2, 3), q(), q()}, attrs: attrs(attrInt("axis", 1)), want: "error: input 3 has elements of type uint8, expected float32"},
		{doc: "columns", op: "com.microsoft.QGemm", version: 1, in: []Arg{q(2, 3), s(), q(), q(3, 4), s(4), q(4), arg(graph.Int32, 4)}},
		{doc: "rows", op: "com.microsoft.QGemm", version: 1, in: []Arg{q(2, 3), s(), q(), q(3, 4), s(3), q(4)}, want: "error: input 4 has shape [3], expected one element or [4]: one for each column"},
		{doc: "a scale of the output alone", op: "com.microsoft.QGemm", version: 1, in: []Arg{q(2, 3), s(), q(), q(3, 4), s(), q(), {}, s()}, want: "error: expected both or none"},
		{doc: "right", op: "com.microsoft.MatMulIntegerToFloat", version: 1, in: []Arg{a, b, s(), s(5, 1, 4), q(), q(4), s(4)}},
		{doc: "a bias for each row", op: "com.microsoft.MatMulIntegerToFloat", version: 1, in: []Arg{a, b, s(), s(), {}, {}, s(2)}, want: "error: input 6 has shape [2], expected [4]: one for each column of input 1"},
		{doc: "an attribute of other products", op: "com.microsoft.MatMulIntegerToFloat", version: 1, in: []Arg{q(3, 3), q(3, 3), s(), s()}, attrs: attrs(attrInt("transA", 1)), want: "error: attribute transA, expected none"},
		{doc: "scales of the left side", op: "com.microsoft.DynamicQuantizeMatMul", version: 1, in: []Arg{arg(f32, 2, 3), q(3, 4), s(2)}, want: "error: input 2 has shape [2], expected one element"},

		{doc: "one scale under blocks", op: "QuantizeLinear", in: []Arg{arg(f32, 2, 6), s()}, attrs: attrs(attrInt("block_size", 4))},
		{doc: "one block", op: "DequantizeLinear", in: []Arg{arg(i8, 1, 6), s(1, 1)}, attrs: attrs(attrInt("block_size", 6))},
		{doc: "one scale for two lines of blocks", op: "DequantizeLinear", in: []Arg{arg(i8, 2, 6), s(1, 1)}, attrs: attrs(attrInt("block_size", 6)), want: "error: input 1 has shape [1,1], expected one scale or [2,1]"},
	})
}
