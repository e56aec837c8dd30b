package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
)

func init() {
	cases = append(cases, activationCases...)
	cases = append(cases, comparisonCases...)
	cases = append(cases, conversionCases...)
}

var activationCases = []nodeCase{
	{op: "Relu", in: args(wholes(graph.Int32, -90, 90, 333))},
	{op: "Tanh", in: args(noise(333))},
	{op: "Softplus", in: args(noise(333)), types: float32s},
	{op: "Softsign", in: args(noise(333)), types: float32s},
	{op: "Mish", in: args(noise(333)), types: float32s},
	{op: "LeakyRelu", attrs: attrs(real("alpha", 0.3)), in: args(noise(333)), types: float32s},
	{op: "ThresholdedRelu", attrs: attrs(real("alpha", 0.7)), in: args(halves(333)), types: float32s},
	{op: "Elu", attrs: attrs(real("alpha", 0.3)), in: args(noise(333)), types: allReals},
	{op: "Celu", attrs: attrs(real("alpha", 0.3)), in: args(noise(333)), types: float32s},
	{op: "Selu", in: args(noise(333)), types: float32s},
	{op: "Selu", attrs: attrs(real("alpha", 2), real("gamma", 3)), in: args(noise(333)), types: float32s},
	{op: "Swish", version: 24, attrs: attrs(real("alpha", 0.7)), in: args(noise(333)), types: float32s},
	{op: "HardSigmoid", attrs: attrs(real("alpha", 0.5)), in: args(noise(333)), types: float32s},
	{op: "HardSwish", in: args(halves(333))},
	{op: "Gelu", version: 20, in: args(noise(333)), types: allReals},
	{op: "Gelu", version: 20, attrs: attrs(text("approximate", "tanh")), in: args(noise(333)), types: allReals},
	{op: "Shrink", attrs: attrs(real("lambd", 0.7), real("bias", 0.25)), in: args(halves(333)), types: float32s},
	{op: "Shrink", attrs: attrs(real("lambd", 3), real("bias", 1.5)), in: args(wholes(graph.Int16, -9, 9, 333))},
	{op: "PRelu", in: args(noise(2, 5, 7), noise(5, 1))},
	{op: "PRelu", in: args(wholes(graph.Int32, -9, 9, 33), wholes(graph.Int32, -9, 9, 33))},
	{op: "Clip", in: args(noise(333), scalar(-0.5), scalar(1)), types: allReals},
	{op: "Clip", in: args(noise(333), nil, scalar(1)), types: float32s},
	{op: "Clip", in: args(noise(333)), types: float32s},
	{op: "Clip", version: 10, attrs: attrs(real("min", -0.5), real("max", 0.75)), in: args(noise(333)), types: float32s},
	{op: "Clip", in: args(wholes(graph.Int8, -90, 90, 333), wholes(graph.Int8, -9, -8))},
	{op: "Dropout", in: args(noise(5, 7)), outputs: 2, types: float32s},
	{op: "Dropout", in: args(noise(5, 7)), types: float32s},
	{op: "com.microsoft.Gelu", version: 1, in: args(noise(333)), types: float32s},
	{op: "com.microsoft.QuickGelu", version: 1, attrs: attrs(real("alpha", 1)), in: args(noise(333)), types: float32s},
	{op: "com.microsoft.FastGelu", version: 1, in: args(noise(7, 41), noise(41))},
	{op: "com.microsoft.FastGelu", version: 1, in: args(noise(7, 41)), types: float32s},
	{op: "com.microsoft.BiasGelu", version: 1, in: args(noise(7, 41), noise(41)), types: float32s},
}

var comparisonCases = []nodeCase{
	{op: "Equal", in: args(wholes(graph.Int64, -2, 3, 7, 9), wholes(graph.Int64, -2, 3, 9))},
	{op: "Equal", in: args(flags(33), flags(33))},
	{op: "Less", in: args(halves(7, 9), halves(9)), types: allReals},
	{op: "LessOrEqual", in: args(halves(7, 9), halves(9)), types: float32s},
	{op: "Greater", in: args(wholes(graph.Uint8, 0, 9, 33), wholes(graph.Uint8, 0, 9, 33))},
	{op: "GreaterOrEqual", in: args(halves(7, 9), halves(9)), types: float32s},
	{op: "And", in: args(flags(7, 9), flags(9))},
	{op: "Or", in: args(flags(7, 9), flags(9))},
	{op: "Xor", in: args(flags(7, 9), flags(9))},
	{op: "Not", in: args(flags(33))},
	{op: "IsNaN", version: 20, in: args(odd()), types: allReals},
	{op: "IsInf", version: 20, in: args(odd()), types: []graph.DType{graph.Float32, graph.Float64}},
	{op: "IsInf", version: 20, attrs: attrs(whole("detect_negative", 0)), in: args(odd()), types: float32s},
	{op: "IsInf", version: 20, attrs: attrs(whole("detect_positive", 0)), in: args(odd()), types: float32s},
	{op: "BitwiseAnd", in: args(wholes(graph.Uint8, 0, 256, 33), wholes(graph.Uint8, 0, 256, 33))},
	{op: "BitwiseOr", in: args(wholes(graph.Int16, -900, 900, 33), wholes(graph.Int16, -900, 900, 33))},
	{op: "BitwiseXor", in: args(wholes(graph.Int64, -900, 900, 33), wholes(graph.Int64, -900, 900, 33))},
	{op: "BitwiseNot", in: args(wholes(graph.Int8, -100, 100, 33))},
	{op: "BitShift", attrs: attrs(text("direction", "LEFT")), in: args(wholes(graph.Uint8, 0, 256, 33), wholes(graph.Uint8, 0, 8, 33))},
	{op: "BitShift", attrs: attrs(text("direction", "RIGHT")), in: args(wholes(graph.Uint32, 0, 1<<32, 33), wholes(graph.Uint32, 0, 31, 33))},
	{op: "Where", in: args(flags(7, 1), noise(7, 9), noise(9)), types: allReals},
	{op: "Where", in: args(flags(7, 8), wholes(graph.Int64, -9, 9, 7, 8), wholes(graph.Int64, -9, 9))},
}

var conversionCases = []nodeCase{
	{op: "Cast", attrs: attrs(whole("to", int64(graph.Int32))), in: args(halves(333)), types: allReals},
	{op: "CastLike", in: args(halves(333), flags(1)), types: float32s},
	{op: "BitCast", version: 26, attrs: attrs(whole("to", int64(graph.Int32))), in: args(wholes(graph.Uint32, 0, 1<<32, 33))},
	{op: "Identity", in: args(noise(33)), types: allReals},
	{op: "Expand", in: args(noise(5, 1, 8), list(2, 5, 3, 8)), consts: []int{1}, types: float32s},
	{op: "Expand", in: args(noise(5, 1), list(1, 7)), consts: []int{1}, types: float32s},
	{op: "Expand", in: args(flags(7), list(1, 7)), consts: []int{1}},
	{op: "ConstantOfShape", in: args(list(3, 5)), types: float32s},
	{op: "ConstantOfShape", attrs: attrs(&graph.Attr{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Type: graph.Int64, Dims: []int64{1}, Ints: []int64{-7}}}), in: args(list(3, 5))},
	{op: "ConstantOfShape", attrs: attrs(&graph.Attr{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Type: graph.Float32, Dims: []int64{1}, Floats: []float64{0.5}}}), in: args(list(3, 5)), types: float32s},
	{op: "Range", in: args(scalar(1.5), scalar(9), scalar(0.25)), types: []graph.DType{graph.Float32, graph.Float64}},
	{op: "Range", in: args(whole0(graph.Int64, 90), whole0(graph.Int64, -9), whole0(graph.Int64, -7))},
	{op: "EyeLike", attrs: attrs(whole("k", -1), whole("dtype", int64(graph.Int32))), in: args(noise(5, 7)), types: float32s},
	{op: "EyeLike", attrs: attrs(whole("k", 2)), in: args(noise(5, 4)), types: float32s},
	{op: "QuantizeLinear", in: args(noise(3, 7, 5), scalar(0.02), whole0(graph.Int8, 5)), types: float32s},
	{op: "QuantizeLinear", in: args(noise(3, 7, 5), positive(7), wholes(graph.Uint8, 0, 255, 7)), types: float32s},
	{op: "QuantizeLinear", version: 23, in: args(noise(3, 7, 5), scalar(0.0001), whole0(graph.Uint16, 30000)), types: float32s},
	{op: "DequantizeLinear", in: args(wholes(graph.Int8, -128, 128, 3, 7, 8), scalar(0.02), whole0(graph.Int8, 5)), types: float32s},
	{op: "DequantizeLinear", attrs: attrs(whole("axis", 0)), in: args(wholes(graph.Uint8, 0, 256, 3, 7, 8), positive(3), wholes(graph.Uint8, 0, 256, 3)), types: float32s},
	{op: "DequantizeLinear", in: args(wholes(graph.Int32, -1<<31, 1<<31, 333), scalar(0.02)), types: float32s},
	{op: "com.microsoft.QuantizeLinear", version: 1, attrs: attrs(whole("axis", 0)), in: args(noise(3, 70), positive(3), wholes(graph.Uint8, 0, 256, 3)), types: float32s},
	{op: "com.microsoft.DequantizeLinear", version: 1, in: args(wholes(graph.Int8, -128, 128, 3, 70), scalar(0.03), whole0(graph.Int8, 5)), types: float32s},
}
