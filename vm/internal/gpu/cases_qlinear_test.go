package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() {
	cases = append(cases, quantizedCases...)
	exactCases = append(append(exactCases, quantizedCases...), quantizedTies...)
}

// tied are the inputs behind a tensor, x, whose scales are powers of two: many results lie
// halfway between two bytes.
func tied(x *reference.Tensor, zero int64, more ...*reference.Tensor) []*reference.Tensor {
	return append(args(x, scalar(0.25), point(x.Type, zero)), more...)
}

var quantizedTies = []nodeCase{
	{op: "com.microsoft.QLinearAdd", in: tied(bytes8(3, 5, 33), 120, tied(bytes8(5, 1), 9, scalar(0.5), point(graph.Uint8, 100))...)},
	{op: "com.microsoft.QLinearMul", in: tied(signed8(999), -5, tied(signed8(999), 7, scalar(2), point(graph.Int8, -9))...)},
	{op: "com.microsoft.QLinearWhere", in: append(args(flags(7, 1)), tied(bytes8(7, 40), 120, tied(bytes8(40), 3, scalar(0.5), point(graph.Uint8, 77))...)...)},
	{op: "com.microsoft.QLinearLeakyRelu", attrs: attrs(real("alpha", 0.5)), in: tied(signed8(8, 64), -20, scalar(0.5), point(graph.Int8, 7))},
	{op: "com.microsoft.QLinearLeakyRelu", attrs: attrs(real("alpha", float32(math.NaN()))), in: tied(signed8(8, 64), -20, scalar(0.5), point(graph.Int8, 7))}, // elements above 0 stay
	{op: "com.microsoft.QLinearSigmoid", in: tied(bytes8(256), 128, scalar(1.0/255), point(graph.Uint8, 0))},
	{op: "com.microsoft.QLinearConcat", attrs: attrs(whole("axis", 1)), in: append(args(scalar(0.5), point(graph.Uint8, 12)), tied(bytes8(3, 8, 5), 120, tied(bytes8(3, 4, 5), 3)...)...)},
	{op: "com.microsoft.QLinearAveragePool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 1)), in: tied(bytes8(2, 3, 20, 21), 120, scalar(0.5), point(graph.Uint8, 77))},
	{op: "com.microsoft.QLinearGlobalAveragePool", in: tied(bytes8(4, 30, 8, 8), 120, scalar(1.0/64), point(graph.Uint8, 77))},
	{op: "com.microsoft.QLinearSoftmax", in: tied(wholes(graph.Uint8, 3, 4, 2, 512), 120, scalar(1.0/256), point(graph.Uint8, 0))},
}

// quantizedCases have scales with which no result lies halfway between two bytes, where the
// evaluator may round another way.
var quantizedCases = []nodeCase{
	{op: "com.microsoft.QLinearAdd", in: args(bytes8(2, 3, 5, 7), scalar(0.0213), point(graph.Uint8, 100), bytes8(3, 1, 1), scalar(0.0317), point(graph.Uint8, 140), scalar(0.0411), point(graph.Uint8, 120)), types: inSingle},
	{op: "com.microsoft.QLinearAdd", in: args(signed8(333), scalar(0.0213), nil, signed8(333), scalar(0.0317), point(graph.Int8, -14), scalar(0.0301)), types: inSingle},
	{op: "com.microsoft.QLinearMul", in: args(signed8(2, 3, 40), scalar(0.0213), point(graph.Int8, -10), signed8(3, 1), scalar(0.0317), point(graph.Int8, 14), scalar(0.0411), point(graph.Int8, 12)), types: inSingle},
	{op: "com.microsoft.QLinearWhere", in: args(flags(4, 1, 9), bytes8(3, 9), scalar(0.0213), point(graph.Uint8, 100), bytes8(4, 3, 1), scalar(0.0317), point(graph.Uint8, 140), scalar(0.0411), point(graph.Uint8, 120)), types: inSingle},
	{op: "com.microsoft.QLinearSigmoid", in: args(bytes8(2, 3, 57), scalar(0.0317), point(graph.Uint8, 120), scalar(0.0039), point(graph.Uint8, 3)), types: inSingle},
	{op: "com.microsoft.QLinearLeakyRelu", attrs: attrs(real("alpha", 0.25)), in: args(signed8(2, 3, 56), scalar(0.0317), point(graph.Int8, -20), scalar(0.025), point(graph.Int8, 7)), types: inSingle},
	{op: "com.microsoft.QLinearConcat", attrs: attrs(whole("axis", 1)), in: args(scalar(0.0411), point(graph.Uint8, 120), bytes8(3, 4, 6), scalar(0.0213), point(graph.Uint8, 100), bytes8(3, 8, 6), scalar(0.0317), point(graph.Uint8, 140), bytes8(3, 1, 6), scalar(0.0411), point(graph.Uint8, 120)), types: inSingle},
	{op: "com.microsoft.QLinearConcat", attrs: attrs(whole("axis", -1)), in: args(scalar(0.0411), point(graph.Int8, 12), signed8(7, 3), scalar(0.0213), point(graph.Int8, 10), signed8(7, 9), scalar(0.0317), nil), types: inSingle},
	{op: "com.microsoft.QLinearSoftmax", attrs: attrs(whole("axis", -1), whole("opset", 13)), in: args(bytes8(5, 1000), scalar(0.0213), point(graph.Uint8, 120), scalar(1.0/2048), point(graph.Uint8, 0)), types: inSingle},
	{op: "com.microsoft.QLinearSoftmax", attrs: attrs(whole("axis", 1), whole("opset", 13)), in: args(signed8(3, 17, 9), scalar(0.0213), point(graph.Int8, 20), scalar(0.0073), point(graph.Int8, -100)), types: inSingle},
	{op: "com.microsoft.QLinearSoftmax", attrs: attrs(whole("axis", 1), whole("opset", 12)), in: args(signed8(3, 4, 10), scalar(0.0213), point(graph.Int8, 20), scalar(0.0073), point(graph.Int8, -100)), types: inSingle},
	{op: "com.microsoft.QLinearAveragePool", attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(bytes8(2, 3, 19, 23), scalar(0.0317), point(graph.Uint8, 100), scalar(0.0213), point(graph.Uint8, 140)), types: inSingle},
	{op: "com.microsoft.QLinearAveragePool", attrs: attrs(ints("kernel_shape", 5), ints("pads", 2, 2), whole("count_include_pad", 1)), in: args(signed8(2, 3, 90), scalar(0.0317), point(graph.Int8, 10), scalar(0.0213), point(graph.Int8, -14)), types: inSingle},
	{op: "com.microsoft.QLinearAveragePool", attrs: attrs(ints("kernel_shape", 7, 7), ints("dilations", 1, 2), ints("strides", 3, 1)), in: args(bytes8(1, 2, 30, 31), scalar(0.0317), point(graph.Uint8, 100), scalar(0.0213), nil), types: inSingle},
	{op: "com.microsoft.QLinearGlobalAveragePool", in: args(bytes8(2, 7, 9, 4), scalar(0.0317), point(graph.Uint8, 100), scalar(0.0213), point(graph.Uint8, 140)), types: inSingle},
	{op: "com.microsoft.QLinearGlobalAveragePool", attrs: attrs(whole("channels_last", 1)), in: args(signed8(2, 5, 5, 21), scalar(0.0317), point(graph.Int8, 10), scalar(0.0213), point(graph.Int8, -14)), types: inSingle},
}
