package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// plainCuts are operators of one input that need no attributes. Those whose signature gives a
// case are among nodeCases.
var plainCuts = []string{
	"Clip", "Dropout", "Hardmax", "Identity", "IsInf", "IsNaN", "LogSoftmax", "LpNormalization", "Mean", "Softmax", "Trilu", "Flatten", "Transpose", "ArgMax", "ArgMin",
}

// pairCuts are operators of two inputs of one element type.
var pairCuts = []string{"Add", "Mul", "Max", "Min", "Sum", "PRelu", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "CastLike"}

// reduceCuts are reductions.
var reduceCuts = []string{
	"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
}

// cutCasesOf returns the cases of lists of operators and of cutCases.
func cutCasesOf() []nodeCase {
	list := cutCases
	for _, op := range plainCuts {
		list = append(list, nodeCase{op: op, version: 24, in: args(positive(5, 7, 33))})
	}
	for _, op := range pairCuts {
		list = append(list, nodeCase{op: op, version: 24, in: args(positive(5, 7, 33), positive(7, 1))})
	}
	for _, op := range reduceCuts {
		for _, keep := range []int64{0, 1} {
			list = append(list, nodeCase{op: op, version: 18, attrs: attrs(whole1("keepdims", keep)), in: args(positive(5, 7, 33), integerList(1))})
			list = append(list, nodeCase{op: op, version: 18, attrs: attrs(whole1("keepdims", keep)), in: args(positive(5, 4, 7, 3), integerList(-1, 1))})
			list = append(list, nodeCase{op: op, version: 12, attrs: attrs(whole1("keepdims", keep), ints("axes", 0, 2)), in: args(positive(5, 4, 7, 3))})
		}
		list = append(list, nodeCase{op: op, version: 17, in: args(positive(40, 70))})
	}
	return list
}

// integerList returns a list of them.
func integerList(list ...int64) *reference.Tensor { return wholes([]int{len(list)}, list...) }

// below returns numbers in [0, n).
func below(n int, shape ...int) *reference.Tensor {
	t := quants(graph.Uint8, shape...)
	for i := range t.I {
		t.I[i] %= int64(n)
	}
	t.Type = graph.Int64
	return t
}

// cutCases are nodes whose copies are compared with the whole, beside nodeCases.
var cutCases = []nodeCase{
	{op: "Sub", version: 24, in: args(noise(5, 7, 33), noise(5, 1, 33))},
	{op: "Mod", version: 24, attrs: attrs(whole1("fmod", 1)), in: args(positive(5, 7, 33), positive(33))},
	{op: "And", version: 24, in: args(flags(5, 7, 33), flags(7, 33))},
	{op: "Or", version: 24, in: args(flags(5, 7, 33), flags(7, 33))},
	{op: "Xor", version: 24, in: args(flags(5, 7, 33), flags(7, 33))},
	{op: "Not", version: 24, in: args(flags(5, 7, 33))},
	{op: "BitwiseAnd", version: 24, in: args(words(5, 7, 33), words(7, 1))},
	{op: "BitwiseOr", version: 24, in: args(words(5, 7, 33), words(7, 1))},
	{op: "BitwiseXor", version: 24, in: args(words(5, 7, 33), words(7, 1))},
	{op: "BitwiseNot", version: 24, in: args(words(5, 7, 33))},
	{op: "BitShift", version: 24, attrs: attrs(text("direction", "LEFT")), in: args(quants(graph.Uint8, 5, 7, 33), points(graph.Uint8, 1, 33))},
	{op: "Where", version: 24, in: args(flags(5, 1, 33), noise(5, 7, 33), noise(1))},
	{op: "Cast", version: 24, attrs: attrs(whole1("to", int64(graph.Int32))), in: args(noise(5, 7, 33))},

	// A slice of one output channel would be a depthwise convolution.
	{op: "Conv", version: 22, attrs: attrs(ints("pads", 0, 1, 0, 2), ints("strides", 3, 1)), in: args(noise(2, 1, 1, 7), noise(2, 1, 1, 4), noise(2))},
	{op: "Conv", version: 22, attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 1, 9, 12), noise(16, 1, 3, 3), noise(16))},
	{op: "com.microsoft.FusedConv", version: 1, attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 1, 9, 12), noise(3, 1, 3, 3), noise(3))},
	{op: "ConvTranspose", version: 22, attrs: attrs(ints("strides", 2, 2), ints("kernel_shape", 2, 2)), in: args(noise(2, 1, 5, 6), noise(1, 3, 2, 2), noise(3))},

	{op: "Reshape", version: 24, in: args(noise(6, 4, 5), integerList(2, 3, 20))},
	{op: "Reshape", version: 24, in: args(noise(4, 6, 5), integerList(6, 4, -1))},
	{op: "Reshape", version: 24, in: args(noise(4, 6, 10), integerList(0, 0, 2, 5))},
	{op: "Reshape", version: 24, in: args(noise(1, 4, 6, 10), integerList(24, 1, 10))},
	{op: "Reshape", version: 1, attrs: attrs(ints("shape", 24, 10)), in: args(noise(4, 6, 10))},
	{op: "Flatten", version: 24, attrs: attrs(whole1("axis", 2)), in: args(noise(4, 6, 5, 2))},
	{op: "Squeeze", version: 24, in: args(noise(1, 4, 1, 6))},
	{op: "Squeeze", version: 11, in: args(noise(1, 4, 1, 6))},
	{op: "Squeeze", version: 24, in: args(noise(1, 4, 1, 6), integerList(-2))},
	{op: "Unsqueeze", version: 24, in: args(noise(4, 6), integerList(0, 2))},
	{op: "Unsqueeze", version: 11, attrs: attrs(ints("axes", 0, -1)), in: args(noise(4, 6))},
	{op: "Transpose", version: 24, attrs: attrs(ints("perm", 2, 0, 3, 1)), in: args(noise(4, 6, 5, 8))},
	{op: "DepthToSpace", attrs: attrs(whole1("blocksize", 2), text("mode", "CRD")), in: args(noise(3, 12, 6, 4))},

	{op: "Softmax", version: 12, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 7, 33))},
	{op: "Softmax", version: 12, attrs: attrs(whole1("axis", -1)), in: args(noise(5, 7, 33))},
	{op: "Softmax", version: 13, attrs: attrs(whole1("axis", 0)), in: args(noise(50, 7, 33))},
	{op: "LogSoftmax", version: 13, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 70, 33))},
	{op: "LpNormalization", version: 22, attrs: attrs(whole1("axis", 0), whole1("p", 1)), in: args(noise(5, 7, 33))},
	{op: "BatchNormalization", version: 15, in: args(noise(3, 20, 7, 5), noise(20), noise(20), noise(20), positive(20))},
	{
		op: "BatchNormalization", version: 15, outputs: 3, attrs: attrs(whole1("training_mode", 1)),
		in: args(noise(3, 20, 7, 5), noise(20), noise(20), noise(20), positive(20)),
	},
	{op: "InstanceNormalization", version: 22, in: args(noise(3, 20, 7, 5), noise(20), noise(20))},
	{op: "GroupNormalization", version: 21, attrs: attrs(whole1("num_groups", 5)), in: args(noise(3, 20, 7, 5), noise(20), noise(20))},
	{op: "GroupNormalization", version: 18, attrs: attrs(whole1("num_groups", 5)), in: args(noise(3, 20, 7, 5), noise(5), noise(5))},
	{op: "MeanVarianceNormalization", version: 13, in: args(noise(3, 20, 7, 5))},
	{op: "LRN", version: 13, attrs: attrs(whole1("size", 3)), in: args(noise(3, 20, 7, 5))},

	{op: "QuantizeLinear", version: 13, in: args(noise(3, 20, 7), scalar(0.03), point(graph.Int8, 5))},
	{op: "QuantizeLinear", version: 13, attrs: attrs(whole1("axis", 1)), in: args(noise(3, 20, 7), positive(20), quants(graph.Uint8, 20))},
	{op: "QuantizeLinear", version: 21, in: args(noise(20), positive(20), quants(graph.Uint8, 20))},
	{op: "DequantizeLinear", version: 13, in: args(quants(graph.Uint8, 3, 20, 7), scalar(0.03))},
	{op: "DequantizeLinear", version: 13, attrs: attrs(whole1("axis", -1)), in: args(quants(graph.Int8, 3, 20, 7), positive(7), quants(graph.Int8, 7))},
	{op: "DequantizeLinear", version: 21, attrs: attrs(whole1("axis", 1), whole1("block_size", 5)), in: args(quants(graph.Int8, 3, 20, 7), positive(3, 4, 7))},
	{op: "QLinearConv", attrs: attrs(ints("pads", 1, 0, 1, 2), ints("strides", 2, 1)), in: args(quants(graph.Uint8, 2, 6, 15, 9), scalar(0.031), point(graph.Uint8, 120), quants(graph.Int8, 8, 6, 3, 3), positive(8), quants(graph.Int8, 8), scalar(23.7), point(graph.Uint8, 99), words(8))},
	{op: "QLinearConv", attrs: attrs(whole1("group", 6), ints("pads", 1, 1, 1, 1)), in: args(quants(graph.Int8, 2, 6, 15, 9), scalar(0.031), point(graph.Int8, -7), quants(graph.Int8, 12, 1, 3, 3), scalar(0.3), point(graph.Int8, 0), scalar(9.7), point(graph.Int8, 5), words(12))},

	{op: "Gemm", attrs: attrs(whole1("transB", 1), float1("alpha", 0.5)), in: args(noise(30, 50), noise(41, 50))},
	{op: "Gemm", attrs: attrs(whole1("transA", 1)), in: args(noise(70, 300), noise(70, 41))},
	{op: "Gemm", in: args(noise(9, 1100), noise(1100, 41), noise(41))},
	{op: "Gemm", attrs: attrs(float1("alpha", 0.5)), in: args(noise(9, 1100), noise(1100, 41), noise(9, 41))},
	{op: "Gemm", attrs: attrs(float1("beta", 0.5)), in: args(noise(9, 1100), noise(1100, 41), noise(9, 41))},
	{op: "MatMul", in: args(noise(2, 65, 300), noise(2, 300, 130))},
	{op: "MatMul", in: args(noise(4, 1, 9, 20), noise(3, 20, 6))},

	{op: "Attention", version: 24, in: args(noise(2, 4, 9, 8), noise(2, 2, 11, 8), noise(2, 2, 11, 8))},
	{op: "Attention", version: 24, in: args(noise(2, 4, 9, 8), noise(2, 4, 11, 8), noise(2, 4, 11, 8), noise(4, 9, 11))},
	{op: "Attention", version: 24, attrs: attrs(whole1("is_causal", 1)), in: args(noise(2, 4, 9, 8), noise(2, 4, 9, 8), noise(2, 4, 9, 8), noise(1, 1, 9, 9))},
	{op: "Attention", version: 24, attrs: attrs(whole1("q_num_heads", 4), whole1("kv_num_heads", 2)), in: args(noise(2, 9, 32), noise(2, 11, 16), noise(2, 11, 16))},
	{op: "RotaryEmbedding", version: 23, in: args(noise(2, 4, 9, 8), noise(2, 9, 4), noise(2, 9, 4))},
	{op: "RotaryEmbedding", version: 23, attrs: attrs(whole1("num_heads", 4)), in: args(noise(2, 9, 32), noise(20, 4), noise(20, 4), below(20, 2, 9))},
	{op: "Upsample", version: 7, attrs: attrs(text("mode", "linear"), floats1("scales", 1, 1, 2, 3)), in: args(noise(2, 3, 9, 11))},
	{op: "Resize", version: 19, attrs: attrs(text("mode", "linear")), in: args(noise(2, 3, 9, 11), nil, nil, wholes([]int{4}, 2, 3, 9, 31))},
	{op: "GridSample", version: 22, in: args(noise(3, 5, 6, 7), noise(3, 4, 9, 2))},
	{op: "RoiAlign", version: 22, attrs: attrs(whole1("output_height", 2), whole1("output_width", 3)), in: args(noise(3, 5, 16, 17), positive(4, 4), below(3, 4))},
	{op: "RNN", version: 22, attrs: attrs(whole1("hidden_size", 5)), outputs: 2, in: args(noise(4, 6, 7), noise(1, 5, 7), noise(1, 5, 5))},
	{op: "GRU", version: 22, attrs: attrs(whole1("hidden_size", 5)), outputs: 2, in: args(noise(4, 6, 7), noise(1, 15, 7), noise(1, 15, 5), noise(1, 30))},
	{op: "LSTM", version: 22, attrs: attrs(whole1("hidden_size", 5)), outputs: 3, in: args(noise(4, 6, 7), noise(1, 20, 7), noise(1, 20, 5))},
	{op: "LSTM", version: 22, attrs: attrs(whole1("hidden_size", 5), whole1("layout", 1)), outputs: 3, in: args(noise(6, 4, 7), noise(1, 20, 7), noise(1, 20, 5))},

	{op: "MatMulInteger", in: args(quants(graph.Uint8, 3, 9, 30), quants(graph.Int8, 30, 19), point(graph.Uint8, 120), quants(graph.Int8, 19))},
	{op: "MatMulInteger", in: args(quants(graph.Uint8, 9, 30), quants(graph.Int8, 30, 19), quants(graph.Uint8, 9), point(graph.Int8, 3))},
	{op: "QLinearMatMul", version: 21, in: args(quants(graph.Uint8, 3, 9, 30), scalar(0.031), point(graph.Uint8, 120), quants(graph.Int8, 30, 19), positive(19), quants(graph.Int8, 19), scalar(3.7), point(graph.Uint8, 99))},
	{op: "ConvInteger", attrs: attrs(ints("pads", 1, 0, 1, 2), ints("strides", 2, 1)), in: args(quants(graph.Uint8, 2, 6, 15, 9), quants(graph.Uint8, 8, 6, 3, 3), point(graph.Uint8, 120), point(graph.Uint8, 99))},
	{op: "ConvInteger", attrs: attrs(whole1("group", 6)), in: args(quants(graph.Uint8, 2, 6, 15, 9), quants(graph.Uint8, 12, 1, 3, 3))},
	{op: "DeformConv", version: 22, attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(3, 6, 9, 7), noise(8, 6, 3, 3), noise(3, 18, 9, 7), noise(8), positive(3, 9, 9, 7))},
	{op: "com.microsoft.FusedMatMul", version: 1, attrs: attrs(whole1("transB", 1), float1("alpha", 0.125)), in: args(noise(3, 33, 70), noise(3, 19, 70))},
	{op: "com.microsoft.FusedMatMul", version: 1, attrs: attrs(float1("alpha", 0.125)), in: args(noise(3, 33, 70), noise(3, 70, 19))},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, outputs: 4, in: args(noise(3, 9, 30), noise(3, 9, 30), noise(30), noise(30), noise(30))},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, in: args(noise(3, 9, 30), noise(3, 9, 30), noise(30))},

	{op: "Split", version: 18, attrs: attrs(whole1("axis", 1), whole1("num_outputs", 3)), outputs: 3, in: args(noise(5, 7, 33))},
	{op: "Split", version: 13, attrs: attrs(whole1("axis", -1)), outputs: 2, in: args(noise(5, 7, 33), integerList(3, 30))},
	{op: "Concat", version: 13, attrs: attrs(whole1("axis", -2)), in: args(noise(5, 7, 33), noise(5, 1, 33), noise(5, 4, 33))},
	{op: "Slice", version: 13, in: args(noise(5, 7, 33), integerList(1, -30), integerList(6, math.MaxInt64), integerList(1, -1))},
	{op: "Slice", version: 13, in: args(noise(5, 9, 33), integerList(1, 2), integerList(8, 30), integerList(1, 2), integerList(2, 3))},
	{op: "Slice", version: 13, in: args(noise(5, 9, 33), integerList(-1, 0), integerList(-10, 2), integerList(1, 0), integerList(-1, 1))},
	{op: "Slice", version: 9, attrs: attrs(ints("starts", 1, 2), ints("ends", 4, 30), ints("axes", 0, 2)), in: args(noise(5, 9, 33))},
	{op: "Slice", version: 9, attrs: attrs(ints("starts", 1, 2), ints("ends", 4, 30)), in: args(noise(5, 33, 4))},
	{op: "Slice", version: 13, in: args(noise(5, 9, 33), wholes32([]int{1}, 3), wholes32([]int{1}, 8), wholes32([]int{1}, 1))},

	{op: "Gather", version: 13, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 9, 33), below(9, 4, 3))},
	{op: "Gather", version: 13, in: args(noise(50, 33), below(50, 4, 30))},
	{op: "GatherElements", version: 13, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 9, 33), below(9, 4, 20, 31))},
	{op: "GatherND", version: 13, in: args(noise(5, 9, 33), below(5, 4, 6, 2))},
	{op: "GatherND", version: 13, attrs: attrs(whole1("batch_dims", 1)), in: args(noise(5, 9, 33), below(9, 5, 6, 1))},
	{op: "Expand", version: 13, in: args(noise(5, 1, 33), integerList(4, 1, 7, 1))},
	{op: "Tile", version: 13, in: args(noise(5, 1, 33), integerList(1, 7, 2))},
	{op: "ConstantOfShape", version: 20, attrs: attrs(&graph.Attr{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Type: graph.Float32, Dims: []int64{1}, Raw: []byte{0, 0, 128, 63}, Bytes: 4}}), in: args(integerList(5, 7, 3))},
	{op: "CumSum", version: 14, in: args(noise(5, 9, 33), wholes([]int{}, 1))},
	{op: "CumProd", version: 26, in: args(noise(5, 9, 33), wholes([]int{}, -1))},

	{op: "OneHot", version: 11, in: args(below(9, 5, 6), wholes([]int{}, 9), noise(2))},
	{op: "OneHot", version: 11, attrs: attrs(whole1("axis", 1)), in: args(below(9, 5, 6), wholes([]int{}, 9), noise(2))},
	{op: "TopK", version: 11, outputs: 2, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 9, 33), integerList(4))},
	{op: "ArgMax", version: 13, attrs: attrs(whole1("axis", 1), whole1("keepdims", 0)), in: args(noise(5, 9, 33))},
	{op: "Scatter", version: 9, attrs: attrs(whole1("axis", 1)), in: args(noise(5, 9, 33), below(9, 5, 3, 33), noise(5, 3, 33))},
	{op: "ScatterElements", version: 18, attrs: attrs(whole1("axis", 1), text("reduction", "add")), in: args(noise(5, 9, 33), below(9, 5, 30, 33), noise(5, 30, 33))},
	{op: "ScatterND", version: 18, attrs: attrs(text("reduction", "add")), in: args(noise(5, 9, 33), below(5, 4, 1), noise(4, 9, 33))},
	{op: "TensorScatter", version: 24, in: args(noise(3, 4, 9, 5), noise(3, 4, 2, 5), integerList(0, 7, 3))},
	{op: "Pad", version: 18, in: args(noise(5, 9, 33), integerList(1, 2, -3, 4), scalar(3), integerList(0, 2))},
	{op: "Pad", version: 10, attrs: attrs(ints("pads", 0, 2, 0, 1, 3, 0)), in: args(noise(5, 9, 33))},
	{op: "Pad", version: 18, attrs: attrs(text("mode", "edge")), in: args(noise(5, 9, 33), integerList(0, 2, 0, 0, 3, 0))},

	{op: "LpPool", version: 18, attrs: attrs(ints("kernel_shape", 3, 2), ints("pads", 1, 0, 1, 1), ints("strides", 2, 1)), in: args(noise(2, 5, 19, 17))},
	{op: "MaxPool", version: 12, outputs: 2, attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(5, 4, 15, 22))},
	{op: "GlobalMaxPool", in: args(noise(3, 5, 19, 17))},
	{op: "GlobalAveragePool", in: args(noise(3, 5, 19, 17))},
	{op: "GlobalLpPool", in: args(noise(3, 5, 19, 17))},
	{op: "NegativeLogLikelihoodLoss", version: 13, in: args(noise(30, 9), below(9, 30))},
	{op: "NegativeLogLikelihoodLoss", version: 13, attrs: attrs(text("reduction", "none")), in: args(noise(5, 9, 7), below(9, 5, 7))},
	{op: "NegativeLogLikelihoodLoss", version: 13, attrs: attrs(text("reduction", "sum")), in: args(noise(5, 9, 7), below(9, 5, 7))},
	{op: "SoftmaxCrossEntropyLoss", version: 13, in: args(noise(30, 9), below(9, 30))},
	{op: "SoftmaxCrossEntropyLoss", version: 13, attrs: attrs(text("reduction", "none")), in: args(noise(5, 9, 7), below(9, 5, 7))},
}
