package gpu

// contrib lists operators of ONNX Runtime's own domain. Those of families that stand in files
// of their own are there.
var contrib = []Row{
	{Name: "Gelu", Element: gelu},
	{Name: "QuickGelu", Element: with("Swish", number{"alpha", 1.702})},
	{Name: "FastGelu", Element: func(n *Node, e *expression) error { return biased(n, e, "GeluTanh") }},
	{Name: "BiasGelu", Element: func(n *Node, e *expression) error { return biased(n, e, "Gelu") }},

	{Name: "SkipLayerNormalization", Make: func(n *Node) error { return makeSkipNorm(n, n.Input(3), n.Input(4), false) }},
	{Name: "SkipSimplifiedLayerNormalization", Make: func(n *Node) error { return makeSkipNorm(n, nil, n.Input(3), true) }},
	{Name: "SimplifiedLayerNormalization", Make: func(n *Node) error { return makeLayerNorm(n, true) }},
	{Name: "EmbedLayerNormalization", Make: makeEmbedNorm},

	{Name: "FusedMatMul", Make: makeFusedMatMul},
	{Name: "TransposeMatMul", Make: makeFusedMatMul},
	{Name: "FusedGemm", Make: makeFusedGemm},
	{Name: "FusedConv", Make: makeFusedConv},

	{Name: "QLinearConv", Make: makeContribQLinearConv},
	{Name: "MatMulIntegerToFloat", Make: makeMatMulIntegerToFloat},
	{Name: "DynamicQuantizeMatMul", Make: makeDynamicQuantizeMatMul},
	{Name: "QGemm", Make: makeQGemm},
	{Name: "DynamicQuantizeLSTM", Make: makeDynamicQuantizeLSTM},
	{Name: "MatMulNBits", Make: makeMatMulNBits},
	{Name: "GatherBlockQuantized", Make: makeGatherBlockQuantized},
}
