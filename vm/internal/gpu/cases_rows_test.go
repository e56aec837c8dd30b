package gpu

import "github.com/onnxmem/onnxmem/graph"

// rowCases are the cases of operators that work along lines of a tensor.
var rowCases = []nodeCase{
	{op: "Softmax", in: args(noise(3, 5))},
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
	{op: "ReduceSum", in: args(noise(4, 3, 2, 3, 5, 7), list(0, 2, 4)), consts: []int{1}},
	{op: "ReduceSum", in: args(noise(4, 3)), attrs: attrs(whole("noop_with_empty_axes", 1))},
	{op: "ReduceSum", in: args(wholes(graph.Int64, -1<<40, 1<<40, 7, 90), list(-1)), consts: []int{1}},
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
}

func init() { cases = append(cases, rowCases...) }
