package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// rowCases are the cases of operators that work along lines of a tensor.
var rowCases = []nodeCase{
	{op: "Softmax", in: args(noise(3, 5))},
	{op: "Softmax", in: args(noise(9, 132))},
	{op: "LogSoftmax", in: args(noise(2, 8196))},
	{op: "Softmax", in: args(noise(2, 9000))},
	{op: "Softmax", attrs: attrs(whole("axis", 0)), in: args(noise(700, 3))},
	{op: "LogSoftmax", in: args(noise(19, 777)), types: allReals},
	{op: "LogSoftmax", in: args(noise(2, 1500))},
	{op: "LogSoftmax", attrs: attrs(whole("axis", 1)), in: args(noise(3, 40, 21))},
	{op: "Hardmax", in: args(noise(19, 333))},
	{op: "Hardmax", attrs: attrs(whole("axis", 1)), in: args(noise(3, 40, 21))},
	{op: "Hardmax", version: 11, in: args(noise(3, 4, 21))},

	{op: "ReduceSum", in: args(noise(40, 777), list(1)), consts: []int{1}, types: allReals},
	{op: "ReduceSum", in: args(positive(1, 100000)), types: []graph.DType{graph.Float32}},
	{op: "ReduceSum", in: args(noise(3001, 5), list(0)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(6, 5, 13, 11), list(0, 2, 3)), consts: []int{1}, attrs: attrs(whole("keepdims", 0))},
	{op: "ReduceSum", in: args(noise(16, 3, 40, 41), list(0, 2, 3)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(3, 40, 40, 40), list(0, 2, 3)), consts: []int{1}, types: allReals},
	{op: "ReduceSumSquare", in: args(noise(2, 37, 41, 41), list(0, 2, 3)), consts: []int{1}},
	{op: "ReduceMax", in: args(wholes(graph.Int32, -900, 900, 2, 35, 36, 36), list(0, 2, 3)), consts: []int{1}},
	{op: "ReduceLogSumExp", in: args(noise(300, 132), list(0)), consts: []int{1}},
	{op: "ReduceMean", version: 11, in: args(noise(301, 132)), attrs: attrs(ints("axes", 0)), types: allReals},
	{op: "ReduceSum", in: args(wholes(graph.Int64, -1<<40, 1<<40, 70, 64), list(0)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(4, 3, 2, 3, 5, 7), list(0, 2, 4)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(4, 3)), attrs: attrs(whole("noop_with_empty_axes", 1))},
	{op: "ReduceSum", in: args(wholes(graph.Int64, -1<<40, 1<<40, 7, 90), list(-1)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(3, 0, 4), list(1)), consts: []int{1}},
	{op: "ReduceMax", in: args(noise(3, 0), list(1)), consts: []int{1}},
	{op: "ReduceMin", in: args(wholes(graph.Int32, 0, 1, 0, 3), list(0)), consts: []int{1}},
	{op: "ReduceMean", version: 11, in: args(noise(9, 40, 33)), attrs: attrs(ints("axes", 1))},
	{op: "ReduceMean", in: args(wholes(graph.Int32, -99, 99, 7, 90), list(0)), consts: []int{1}},
	{op: "ReduceSumSquare", in: args(noise(9, 40, 33), list(1, 2)), consts: []int{1}},
	{op: "ReduceL1", in: args(noise(9, 40))},
	{op: "ReduceL1", in: args(wholes(graph.Int32, -99, 99, 7, 90), list(0)), consts: []int{1}},
	{op: "ReduceL2", in: args(noise(9, 40), list(0)), consts: []int{1}, types: allReals},
	{op: "ReduceLogSum", in: args(positive(9, 40), list(1)), consts: []int{1}},
	{op: "ReduceLogSumExp", in: args(noise(9, 1400), list(1)), consts: []int{1}},
	{op: "ReduceLogSumExp", in: args(noise(2, 30000), list(1)), consts: []int{1}, types: allReals},
	{op: "ReduceProd", in: args(positive(9, 10), list(0)), consts: []int{1}},
	{op: "ReduceProd", in: args(wholes(graph.Int64, -9, 9, 7, 9), list(0)), consts: []int{1}},
	{op: "ReduceMax", in: args(noise(9, 400), list(1)), consts: []int{1}},
	{op: "ReduceMin", in: args(noise(9, 4, 100), list(0, 2)), consts: []int{1}},
	{op: "ReduceMax", in: args(wholes(graph.Int32, -900, -100, 7, 90), list(0)), consts: []int{1}},
	{op: "ReduceMin", in: args(wholes(graph.Int64, 100, 900, 7, 90), list(1)), consts: []int{1}},
	{op: "ArgMax", in: args(noise(9, 1500)), attrs: attrs(whole("axis", 1))},
	{op: "ArgMax", in: args(wholes(graph.Int32, 0, 4, 9, 70)), attrs: attrs(whole("axis", 1), whole("select_last_index", 1))},
	{op: "ArgMin", in: args(wholes(graph.Int64, 0, 4, 50, 9)), attrs: attrs(whole("keepdims", 0))},
	{op: "ArgMin", in: args(noise(5, 40, 9)), attrs: attrs(whole("axis", 1))},

	{op: "LayerNormalization", in: args(noise(3, 7, 333), noise(333), noise(333)), outputs: 3, types: allReals},
	{op: "LayerNormalization", in: args(noise(2, 9000), noise(9000), noise(9000))},
	{op: "LayerNormalization", attrs: attrs(whole("axis", 1)), in: args(noise(3, 7, 33), noise(7, 1))},
	{op: "LayerNormalization", in: args(far(3, 333), noise(333)), types: []graph.DType{graph.Float32}},
	{op: "LayerNormalization", in: args(huge(3, 333), noise(333)), outputs: 3, types: []graph.DType{graph.Float32}},
	{op: "LayerNormalization", in: args(huge(2, 9000), noise(9000)), types: []graph.DType{graph.Float32}},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(huge(8, 3, 50), noise(3), noise(3), noise(3), positive(3)), types: []graph.DType{graph.Float32}},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(far(8, 3, 50), noise(3), noise(3), noise(3), positive(3)), outputs: 3, onHost: 3e-5, types: []graph.DType{graph.Float32}},
	{op: "RMSNormalization", version: 23, in: args(noise(2, 9001), noise(9001))},
	{op: "RMSNormalization", version: 23, in: args(noise(5, 1200), noise(1200))},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, in: args(noise(2, 7, 40), noise(2, 7, 40), noise(40), noise(40), noise(40)), outputs: 4},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, in: args(noise(2, 7, 40), noise(7, 40), noise(40)), outputs: 3},
	{op: "SimplifiedLayerNormalization", version: 1, in: args(noise(3, 7, 40), noise(40)), outputs: 2, types: allReals},
	{op: "com.microsoft.SimplifiedLayerNormalization", version: 1, in: args(noise(5, 2100), noise(2100)), attrs: attrs(real("epsilon", 0.01))},
	{op: "com.microsoft.SkipSimplifiedLayerNormalization", version: 1, in: args(noise(2, 7, 40), noise(2, 7, 40), noise(40), noise(40)), outputs: 4, types: halfAndSingle},
	{op: "com.microsoft.SkipSimplifiedLayerNormalization", version: 1, in: args(noise(2, 7, 333), noise(7, 333), noise(333)), attrs: attrs(real("epsilon", 0.01))},
	{op: "BatchNormalization", in: args(noise(2, 5, 9, 11), noise(5), noise(5), noise(5), positive(5)), types: allReals},
	{op: "BatchNormalization", in: args(noise(2, 5, 9, 11), noise(5), noise(5), noise(5), positive(5)), types: []graph.DType{graph.BFloat16}, single: true},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(6, 5, 9, 11), noise(5), noise(5), noise(5), positive(5)), outputs: 3, types: []graph.DType{graph.Float16}, single: true},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(600, 5), noise(5), noise(5), noise(5), positive(5)), outputs: 3, types: []graph.DType{graph.BFloat16}, single: true},
	{op: "BatchNormalization", in: args(noise(2, 3, 60, 70), noise(3), noise(3), noise(3), positive(3))},
	{op: "BatchNormalization", in: args(noise(40, 5), noise(5), noise(5), noise(5), positive(5))},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(6, 5, 9, 11), noise(5), noise(5), noise(5), positive(5)), outputs: 3, types: allReals},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(8, 3, 40, 40), noise(3), noise(3), noise(3), positive(3)), outputs: 3},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(3, 40, 40, 40), noise(40), noise(40), noise(40), positive(40)), outputs: 3, types: allReals},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(far(2, 37, 41, 41), noise(37), noise(37), noise(37), positive(37)), outputs: 3, onHost: 3e-5, types: []graph.DType{graph.Float32}},
	{op: "BatchNormalization", attrs: attrs(whole("training_mode", 1)), in: args(noise(600, 5), noise(5), noise(5), noise(5), positive(5)), outputs: 3},
	{op: "InstanceNormalization", in: args(noise(2, 3, 7, 9), noise(3), noise(3))},
	{op: "InstanceNormalization", in: args(noise(2, 2, 120, 90), noise(2), noise(2))},
	{op: "GroupNormalization", version: 21, attrs: attrs(whole("num_groups", 2)), in: args(noise(2, 6, 7, 9), noise(6), noise(6))},
	{op: "GroupNormalization", attrs: attrs(whole("num_groups", 2)), in: args(noise(2, 6, 7, 9), noise(2), noise(2))},
	{op: "GroupNormalization", version: 21, attrs: attrs(whole("num_groups", 2)), in: args(noise(2, 6, 60, 60), noise(6), noise(6))},
	{op: "MeanVarianceNormalization", in: args(noise(4, 3, 9, 11))},
	{op: "MeanVarianceNormalization", attrs: attrs(ints("axes", 1)), in: args(noise(40, 30))},
	{op: "LpNormalization", in: args(noise(4, 300))},
	{op: "LpNormalization", attrs: attrs(whole("p", 1), whole("axis", 1)), in: args(noise(4, 30, 7))},
	{op: "LRN", attrs: attrs(whole("size", 4), real("alpha", 0.1)), in: args(noise(2, 7, 5, 5))},

	{op: "CumSum", in: args(noise(9, 333), list(1)), consts: []int{1}, types: allReals},
	{op: "CumSum", in: args(noise(9, 33, 5), list(1)), consts: []int{1}, attrs: attrs(whole("exclusive", 1))},
	{op: "CumSum", in: args(noise(9, 70), list(-1)), consts: []int{1}, attrs: attrs(whole("exclusive", 1), whole("reverse", 1))},
	{op: "CumSum", in: args(wholes(graph.Int64, -1<<40, 1<<40, 9, 40), list(0)), consts: []int{1}, attrs: attrs(whole("reverse", 1))},
	{op: "CumSum", in: args(wholes(graph.Int32, -99, 99, 2, 70), list(1)), consts: []int{1}},
	{op: "CumProd", version: 26, in: args(positive(3, 40), list(1)), consts: []int{1}},

	{op: "NegativeLogLikelihoodLoss", in: args(positive(40, 7), wholes(graph.Int64, 0, 7, 40))},
	{op: "NegativeLogLikelihoodLoss", attrs: attrs(text("reduction", "none"), whole("ignore_index", 3)), in: args(noise(5, 7, 4, 6), wholes(graph.Int32, 0, 7, 5, 4, 6), positive(7))},
	{op: "NegativeLogLikelihoodLoss", attrs: attrs(whole("ignore_index", -100)), in: args(positive(3, 4, 60, 60), wholes(graph.Int64, 0, 4, 3, 60, 60), positive(4))},
	{op: "SoftmaxCrossEntropyLoss", in: args(noise(40, 777), wholes(graph.Int64, 0, 777, 40)), outputs: 2, types: allReals},
	{op: "SoftmaxCrossEntropyLoss", attrs: attrs(text("reduction", "sum")), in: args(noise(5, 7, 4, 6), wholes(graph.Int64, 0, 7, 5, 4, 6), positive(7)), outputs: 2},
	{op: "SoftmaxCrossEntropyLoss", attrs: attrs(text("reduction", "none")), in: args(noise(3, 9), wholes(graph.Int64, 0, 9, 3))},

	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 3, 13, 15)), outputs: 2, types: allReals},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 2, 3, 2), ints("dilations", 1, 2, 2), whole("storage_order", 1)), in: args(noise(2, 2, 5, 7, 6)), outputs: 2},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 3), text("auto_pad", "SAME_UPPER"), ints("strides", 2)), in: args(wholes(graph.Int8, -99, 99, 2, 3, 14))},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 3, 2), ints("strides", 2, 2), whole("ceil_mode", 1)), in: args(wholes(graph.Uint8, 0, 99, 2, 3, 14, 9))},
	{op: "AveragePool", attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 3, 13, 15)), types: allReals},
	{op: "AveragePool", version: 19, attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 0, 1, 2), ints("dilations", 2, 1), whole("count_include_pad", 1), whole("ceil_mode", 1)), in: args(noise(2, 3, 14, 16))},
	{op: "LpPool", attrs: attrs(ints("kernel_shape", 3, 3), whole("p", 3)), in: args(noise(2, 3, 9, 8))},
	{op: "LpPool", attrs: attrs(ints("kernel_shape", 4)), in: args(noise(2, 3, 9))},
	{op: "GlobalAveragePool", in: args(noise(4, 9, 7, 7))},
	{op: "GlobalMaxPool", in: args(noise(4, 9, 50))},
	{op: "GlobalLpPool", in: args(noise(4, 9, 50))},
	{op: "GlobalLpPool", attrs: attrs(whole("p", 1)), in: args(noise(4, 9, 5, 5))},
}

func init() { cases = append(cases, rowCases...) }

// far returns reals in [998, 1002): their squares leave no digits for the variance.
func far(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i] + 1000))
	}
	return t
}

// huge returns reals whose squares are infinite as floats.
func huge(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] *= 1 << 80
	}
	return t
}
