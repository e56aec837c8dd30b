package gpu

import "github.com/onnxmem/onnxmem/graph"

func init() { cases = append(cases, matmulCases...) }

var matmulCases = []nodeCase{
	{op: "MatMul", in: args(noise(37, 45), noise(45, 70)), types: allReals},
	{op: "MatMul", in: args(noise(3, 1, 5, 9), noise(2, 9, 6))},
	{op: "MatMul", in: args(noise(3, 7, 9), noise(9, 4))},
	{op: "MatMul", in: args(noise(2, 3, 7, 9), noise(2, 1, 9, 4))},
	{op: "MatMul", in: args(noise(9), noise(9)), types: allReals},
	{op: "MatMul", in: args(noise(9), noise(3, 9, 5))},
	{op: "MatMul", in: args(noise(3, 5, 9), noise(9))},
	{op: "MatMul", in: args(noise(3, 1200), noise(1200, 5)), types: allReals},
	{op: "MatMul", in: args(noise(3, 0), noise(0, 5))},
	{op: "MatMul", in: args(wholes(graph.Int32, -99, 99, 7, 33), wholes(graph.Int32, -99, 99, 33, 5))},
	{op: "MatMul", in: args(wholes(graph.Int64, -99, 99, 7, 33), wholes(graph.Int64, -99, 99, 33, 5))},

	{op: "Gemm", in: args(noise(13, 21), noise(21, 19)), types: allReals},
	{op: "Gemm", attrs: attrs(whole("transA", 1), real("alpha", 0.5), real("beta", -2)), in: args(noise(21, 13), noise(21, 20), noise(13, 1)), types: allReals},
	{op: "Gemm", attrs: attrs(whole("transB", 1)), in: args(noise(13, 21), noise(19, 21), noise(19))},
	{op: "Gemm", attrs: attrs(whole("transB", 1), whole("transA", 1)), in: args(noise(21, 13), noise(19, 21), noise(1))},
	{op: "Gemm", attrs: attrs(real("alpha", 0.25)), in: args(noise(2, 700), noise(700, 8), noise(2, 8))},
	{op: "Gemm", attrs: attrs(real("beta", 0)), in: args(noise(5, 7), noise(7, 8), noise(5, 8))},
	{op: "Gemm", in: args(noise(5, 7), noise(7, 8), scalar(2))},
	{op: "Gemm", in: args(wholes(graph.Int32, -9, 9, 2, 700), wholes(graph.Int32, -9, 9, 700, 8), wholes(graph.Int32, -9, 9, 8))}, // sums in parts
	{op: "Gemm", attrs: attrs(real("alpha", 2), real("beta", 3)), in: args(wholes(graph.Int64, -9, 9, 5, 7), wholes(graph.Int64, -9, 9, 7, 6), wholes(graph.Int64, -9, 9, 6))},

	{op: "com.microsoft.FusedMatMul", attrs: attrs(whole("transA", 1), real("alpha", 0.5)), in: args(noise(2, 9, 5), noise(2, 9, 6))},
	{op: "com.microsoft.FusedMatMul", attrs: attrs(whole("transB", 1), whole("transBatchA", 1), whole("transBatchB", 1)), in: args(noise(5, 3, 9), noise(6, 3, 9))},
	{op: "com.microsoft.FusedMatMul", attrs: attrs(whole("transA", 1), whole("transBatchA", 1)), in: args(noise(9, 3, 5), noise(3, 9, 6))},
	{op: "com.microsoft.FusedMatMul", attrs: attrs(whole("transA", 1)), in: args(noise(9), noise(3, 9, 6))},
	{op: "com.microsoft.TransposeMatMul", attrs: attrs(whole("transB", 1)), in: args(noise(4, 9), noise(6, 9))},
	{op: "com.microsoft.FusedGemm", attrs: attrs(text("activation", "Relu")), in: args(noise(5, 7), noise(7, 8), noise(5, 8))},
	{op: "com.microsoft.FusedGemm", attrs: attrs(text("activation", "LeakyRelu"), real("activation_alpha", 0.5), real("beta", 0.5)), in: args(noise(5, 7), noise(7, 8), noise(8))},
	{op: "com.microsoft.FusedGemm", attrs: attrs(text("activation", "HardSigmoid")), in: args(noise(5, 7), noise(7, 8), noise(8))},
	{op: "com.microsoft.FusedGemm", attrs: attrs(text("activation", "Tanh")), in: args(noise(5, 7), noise(7, 8))},

	{op: "Einsum", attrs: attrs(text("equation", "bhid,bhjd->bhij")), in: args(noise(2, 3, 5, 9), noise(2, 3, 7, 9))},
	{op: "Einsum", attrs: attrs(text("equation", "bihd,bjhd->bhij")), in: args(noise(2, 5, 3, 9), noise(2, 7, 3, 9))},
	{op: "Einsum", attrs: attrs(text("equation", "bhij,bjhd->bihd")), in: args(noise(2, 3, 5, 7), noise(2, 7, 3, 9))},
	{op: "Einsum", attrs: attrs(text("equation", "ibh,hnd->bnid")), in: args(noise(4, 2, 9), noise(9, 3, 5))},
	{op: "Einsum", attrs: attrs(text("equation", "ij,jk->ki")), in: args(noise(6, 9), noise(9, 7))},
	{op: "Einsum", attrs: attrs(text("equation", "ijk,jkl->il")), in: args(noise(6, 9, 2), noise(9, 2, 7))},
	{op: "Einsum", attrs: attrs(text("equation", "i,j->ij")), in: args(noise(6), noise(9))},
	{op: "Einsum", attrs: attrs(text("equation", "...i,...i->...")), in: args(noise(3, 1, 9), noise(4, 9))},
	{op: "Einsum", attrs: attrs(text("equation", "bii,bij->bj")), in: args(noise(2, 6, 6), noise(2, 6, 9)), types: []graph.DType{graph.Float32, graph.Float64}},
}
