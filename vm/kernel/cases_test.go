package kernel

var nodeCases = []nodeCase{
	{op: "MatMul", in: args(noise(3, 33, 70), noise(3, 70, 19))},
	{op: "MatMul", in: args(noise(2, 5, 40), noise(40, 130))},
	{op: "Gemm", attrs: attrs(whole1("transB", 1), float1("alpha", 0.5)), in: args(noise(30, 50), noise(41, 50), noise(41))},
	{op: "Gemm", attrs: attrs(whole1("transA", 1), float1("beta", 2)), in: args(noise(50, 30), noise(50, 41), noise(30, 1))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 5, 14, 19), noise(7, 5, 3, 3), noise(7))},
	{op: "Conv", attrs: attrs(ints("strides", 2, 2), whole1("group", 2)), in: args(noise(2, 6, 15, 15), noise(8, 3, 5, 3), noise(8))},
	{op: "Conv", in: args(noise(1, 9, 10, 21), noise(17, 9, 1, 1))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 9)), in: args(noise(2, 9, 13, 21), noise(9, 1, 3, 3), noise(9))},

	{op: "Attention", version: 24, in: args(noise(2, 3, 150, 20), noise(2, 3, 130, 20), noise(2, 3, 130, 24))},
	{
		op: "Attention", version: 24, outputs: 4,
		attrs: attrs(whole1("q_num_heads", 4), whole1("kv_num_heads", 2), whole1("is_causal", 1), float1("softcap", 3), whole1("qk_matmul_output_mode", 2)),
		in:    args(noise(2, 70, 64), noise(2, 70, 32), noise(2, 70, 16), noise(70, 75), noise(2, 2, 5, 16), noise(2, 2, 5, 8)),
	},
	{
		op: "Attention", version: 24, outputs: 4, attrs: attrs(whole1("is_causal", 1), whole1("qk_matmul_output_mode", 3)),
		in: args(noise(2, 2, 66, 8), noise(2, 2, 90, 8), noise(2, 2, 90, 8), nil, nil, nil, wholes([]int{2}, 80, 60)),
	},
	{op: "RotaryEmbedding", version: 23, attrs: attrs(whole1("num_heads", 3), whole1("interleaved", 1)), in: args(noise(2, 5, 48), noise(2, 5, 8), noise(2, 5, 8))},
	{
		op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole1("num_heads", 2), whole1("unidirectional", 1)),
		in: args(noise(2, 70, 24), noise(24, 96), noise(96)),
	},
}
