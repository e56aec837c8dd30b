package gpu

import "github.com/onnxmem/onnxmem/graph"

// cases has at least one node for each row of the tables, and one for each way through a
// row.
var cases = []nodeCase{
	{op: "Add", in: args(noise(5, 7, 30), noise(7, 1)), types: allReals},
	{op: "Add", in: args(wholes(graph.Int64, -9, 9, 333), wholes(graph.Int64, -9, 9, 1))},
	{op: "Sub", in: args(noise(7, 1), noise(5, 7, 30))},
	{op: "Mul", in: args(noise(5, 1, 30, 3), noise(1, 7, 30, 1))},
	{op: "Div", in: args(noise(333), positive(333))},
	{op: "Div", in: args(wholes(graph.Int32, -90, 90, 333), wholes(graph.Int32, 1, 9, 333))},
	{op: "Relu", in: args(noise(333)), types: allReals},
	{op: "Sigmoid", in: args(noise(333))},

	{op: "Softmax", in: args(noise(19, 777))},
	{op: "Softmax", attrs: attrs(whole("axis", 1)), in: args(noise(3, 40, 21)), types: allReals},
	{op: "Softmax", version: 11, in: args(noise(3, 4, 21))},
}

// allReals are the dtypes of reals.
var allReals = []graph.DType{graph.Float32, graph.Float16, graph.BFloat16, graph.Float64}
