package autodiff

import "github.com/onnxmem/onnxmem/graph"

// attentionCases have a batch of 2, 2 heads of size 2, 2 queries and 3 keys.
var attentionCases = func() []ruleCase {
	four := func(heads int) []operand {
		return []operand{param(2, 2, 2, 2), param(2, heads, 3, 2), param(2, heads, 3, 2)}
	}
	three := func() []operand { return []operand{param(2, 2, 4), param(2, 3, 4), param(2, 3, 4)} }
	at := []int64{23, 24}
	cases := []ruleCase{
		{op: "Attention", name: "four axes", in: four(2), opsets: at},
		{op: "Attention", name: "three axes", in: three(), attrs: attrs{"q_num_heads": 2, "kv_num_heads": 2}, opsets: at},
		{op: "Attention", name: "shared keys", in: four(1), opsets: at},
		{op: "Attention", name: "scale and cap", in: four(2), attrs: attrs{"scale": 0.7, "softcap": 0.5}, opsets: at},
		{op: "Attention", name: "mask", in: append(four(2), param(2, 3)), opsets: at},
		{op: "Attention", name: "mask of flags", in: append(four(2), flags([]int{2, 3}, 1, 0, 1, 1, 1, 0)), opsets: at},
		{op: "Attention", name: "causal", in: []operand{param(1, 2, 3, 2), param(1, 2, 3, 2), param(1, 2, 3, 2)}, attrs: attrs{"is_causal": 1}, opsets: at},
		{op: "Attention", name: "past", in: append(four(2), omitted, param(2, 2, 1, 2), param(2, 2, 1, 2)), outputs: 3, opsets: at},
		{op: "Attention", name: "keys and values are outputs", in: three(), attrs: attrs{"q_num_heads": 2, "kv_num_heads": 2}, outputs: 3, opsets: at},
		{op: "Attention", name: "products as well", in: four(2), outputs: 4, use: []int{0, 3}, opsets: at},
		{op: "Attention", name: "probabilities as well", in: four(2), attrs: attrs{"qk_matmul_output_mode": 3}, outputs: 4, use: []int{0, 3}, opsets: at},
		{op: "Attention", name: "one input", in: []operand{param(2, 2, 3, 2), same(0), same(0)}, opsets: at},
	}
	caches := func(batch int) []operand { return []operand{param(batch, 3, 2), param(batch, 3, 2)} }
	table := []operand{param(5, 2), param(5, 2), indices([]int{2, 3}, 0, 4, 1, 2, 2, 3)}
	at = []int64{23}
	kept := attrs{"scale": 0.7, "fill": -1e30, "safe": 0}
	scored := func(heads int, bias, keep operand) []operand {
		return []operand{param(2, 2, 2, 3), param(2, heads, 3, 4), param(2, heads, 4, 2), bias, keep}
	}
	none, all := param().fed().of(0), flags(nil, 1)
	return append(
		cases,
		ruleCase{domain: fusedDomain, op: graph.FlashAttention, in: scored(2, none, all), attrs: kept, outputs: 2, use: []int{0}},
		ruleCase{domain: fusedDomain, op: graph.FlashAttention, name: "shared keys", in: scored(1, none, all), attrs: kept, outputs: 2, use: []int{0}},
		ruleCase{domain: fusedDomain, op: graph.FlashAttention, name: "bias, flags", in: scored(2, param(4).fed().of(0.5, -0.25, 1, 0), flags([]int{2, 4}, 1, 0, 1, 1, 0, 0, 0, 0)), attrs: kept, outputs: 2, use: []int{0}},
		ruleCase{op: "RotaryEmbedding", name: "four axes", in: append([]operand{param(2, 2, 3, 4)}, caches(2)...), opsets: at},
		ruleCase{op: "RotaryEmbedding", name: "interleaved", in: append([]operand{param(2, 2, 3, 4)}, caches(2)...), attrs: attrs{"interleaved": 1}, opsets: at},
		ruleCase{op: "RotaryEmbedding", name: "part of a head", in: append([]operand{param(2, 2, 3, 6)}, caches(2)...), attrs: attrs{"rotary_embedding_dim": 4}, opsets: at},
		ruleCase{op: "RotaryEmbedding", name: "three axes, positions", in: append([]operand{param(2, 3, 8)}, table...), attrs: attrs{"num_heads": 2}, opsets: at},
	)
}()

// contribExpansionCases are operators of com.microsoft that are expanded into others.
var contribExpansionCases = func() []ruleCase {
	ids := func(shape []int, v ...int64) operand {
		o := indices(shape, v...)
		o.elem = list32().elem
		return o
	}
	embed := func() []operand {
		return []operand{ids([]int{2, 3}, 1, 0, 2, 2, 2, 1), ids([]int{2, 3}, 0, 1, 1, 0, 0, 1), param(3, 4), param(5, 4), param(2, 4), param(4), param(4)}
	}
	merged := func() []operand { return []operand{param(2, 3, 2), param(2, 12), param(12)} }
	apart := func() []operand { return []operand{param(2, 2, 4), param(2, 3, 4), param(2, 3, 4)} }
	two := attrs{"num_heads": 2}
	cases := []ruleCase{
		{op: "SkipLayerNormalization", in: []operand{param(2, 2, 3), param(2, 2, 3), param(3), param(3), param(3)}},
		{op: "SkipLayerNormalization", name: "no bias, sum as well", in: []operand{param(2, 2, 3), param(2, 2, 3), param(3)}, attrs: attrs{"epsilon": 0.1}, outputs: 4, use: []int{0, 3}},
		{op: "SkipSimplifiedLayerNormalization", in: []operand{param(2, 2, 3), param(2, 2, 3), param(3), param(3)}, opsets: []int64{18, 23}},
		{op: "EmbedLayerNormalization", in: embed(), outputs: 2, use: []int{0}},
		{op: "EmbedLayerNormalization", name: "positions, mask", in: append(embed(), ids([]int{2, 3}, 1, 1, 0, 1, 1, 1), ids([]int{2, 3}, 0, 2, 4, 1, 2, 3)), attrs: attrs{"epsilon": 0.1, "mask_index_type": 1}, outputs: 2, use: []int{0}},
		{op: "BiasAdd", in: []operand{param(2, 2, 3), param(3), param(2, 2, 3)}},
		{op: "BiasSoftmax", in: []operand{param(2, 3), param(2, 3)}, attrs: attrs{"axis": 1}},
		{op: "BiasSoftmax", name: "bias broadcasts", in: []operand{param(2, 2, 3), param(1, 2, 3)}, attrs: attrs{"axis": 2}},
		{op: "FusedConv", in: []operand{param(2, 2, 4, 4), param(3, 2, 3, 3), param(3)}, attrs: attrs{"activation": "Relu", "pads": []int64{1, 0, 0, 1}}},
		{op: "FusedConv", name: "sum", in: []operand{param(1, 2, 3, 3), param(3, 2, 2, 2), param(3), param(1, 3, 2, 2)}, attrs: attrs{"activation": "Tanh"}},
		{op: "FusedGemm", in: []operand{param(2, 3), param(4, 3), param(4)}, attrs: attrs{"activation": "Elu", "activation_alpha": 0.5, "transB": 1, "alpha": 0.5}},
		{op: "FusedGemm", name: "beta alone", in: []operand{param(2, 3), param(3, 4)}, attrs: attrs{"activation": "HardSigmoid", "activation_beta": 0.25}},
		{op: "GemmFastGelu", in: []operand{param(2, 2, 3), param(3, 4), param(4)}},
		{op: "GemmFastGelu", name: "no bias", in: []operand{param(2, 3), param(3, 4)}},
		{op: "Attention", in: merged(), attrs: two},
		{op: "Attention", name: "mask of keys", in: append(merged(), ids([]int{2, 3}, 1, 0, 1, 1, 1, 0)), attrs: two},
		{op: "Attention", name: "number of keys", in: append(merged(), ids([]int{2}, 2, 3)), attrs: two},
		{op: "Attention", name: "unidirectional", in: merged(), attrs: attrs{"num_heads": 2, "unidirectional": 1}},
		{op: "Attention", name: "bias of scores", in: append(merged(), omitted, omitted, param(2, 2, 3, 3)), attrs: two},
		{op: "Attention", name: "keys and values as well", in: merged(), attrs: two, outputs: 2},
		{op: "MultiHeadAttention", in: apart(), attrs: two},
		{op: "MultiHeadAttention", name: "bias, mask", in: append(apart(), param(12), ids([]int{2, 3}, 1, 1, 0, 1, 1, 1)), attrs: two},
		{op: "MultiHeadAttention", name: "bias of scores, scale", in: append(apart(), omitted, omitted, param(1, 2, 2, 3)), attrs: attrs{"num_heads": 2, "scale": 0.3}},
		{op: "MultiHeadAttention", name: "keys and values as well", in: apart(), attrs: two, outputs: 3},
		{op: "RotaryEmbedding", name: "first place", in: []operand{param(2, 3, 8), list(1).fed(), param(5, 2), param(5, 2)}},
		{op: "RotaryEmbedding", name: "places, interleaved", in: []operand{param(2, 2, 3, 4), indices([]int{2, 3}, 0, 4, 1, 2, 2, 3), param(5, 2), param(5, 2)}, attrs: attrs{"interleaved": 1}},
	}
	for i := range cases {
		cases[i].domain = microsoft
	}
	return cases
}()
