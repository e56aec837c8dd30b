package kernel

// Cases that are made here draw their numbers after all others, which so keep theirs.
func init() { nodeCases = append(nodeCases, packedAttentionCases()...) }

// packedAttentionCases have past keys and values, every kind of mask, small filters, and values of
// another size.
func packedAttentionCases() []nodeCase {
	return []nodeCase{
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, outputs: 2, attrs: attrs(whole1("num_heads", 2), whole1("unidirectional", 1), float1("mask_filter_value", -1)), in: args(noise(2, 9, 24), noise(24, 48), noise(48), wholes32([]int{2, 14}, marks(28)...), noise(2, 2, 2, 5, 8))},
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, outputs: 2, attrs: attrs(whole1("num_heads", 2), float1("scale", 0.3)), in: args(noise(2, 1, 24), noise(24, 48), nil, wholes32([]int{4}, 5, 6, 2, 7), noise(2, 2, 2, 6, 8))},
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, outputs: 2, attrs: attrs(whole1("num_heads", 2), whole1("unidirectional", 1)), in: args(noise(2, 3, 24), noise(24, 48), noise(48), nil, noise(2, 2, 2, 0, 8))},
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, outputs: 2, attrs: attrs(whole1("num_heads", 2), float1("mask_filter_value", -1)), in: args(noise(2, 3, 24), noise(24, 48), noise(48), wholes32([]int{2, 3, 5}, marks(30)...), noise(2, 2, 2, 2, 8))},
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, outputs: 2, attrs: attrs(whole1("num_heads", 2), float1("mask_filter_value", -1)), in: args(noise(2, 3, 24), noise(24, 48), noise(48), wholes32([]int{2, 1, 7, 7}, marks(98)...), noise(2, 2, 2, 2, 8))},
		{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole1("num_heads", 2), ints("qkv_hidden_sizes", 8, 8, 12)), in: args(noise(2, 3, 24), noise(24, 28), noise(28), wholes32([]int{1, 1}, 0), nil, noise(1, 2, 3, 3))},
		{op: "com.microsoft.EmbedLayerNormalization", version: 1, outputs: 3, attrs: attrs(float1("epsilon", 0.1)), in: args(wholes32([]int{2, 3}, 1, 0, 6, 2, 2, 5), wholes32([]int{2, 3}, 0, 1, 1, 0, 0, 1), noise(7, 40), noise(5, 40), noise(2, 40), noise(40), noise(40), wholes32([]int{2, 3}, 1, 2, 1, -1, 0, 1), wholes32([]int{1, 3}, 4, 0, 2))},
		{op: "com.microsoft.EmbedLayerNormalization", version: 1, outputs: 2, in: args(wholes32([]int{2, 3}, 1, 0, 6, 2, 2, 5), nil, noise(7, 40), noise(5, 40), nil, noise(40), noise(40))},
	}
}

// marks are numbers from -1 to 2, as masks of keys have them.
func marks(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i*i*7%11%4) - 1
	}
	return list
}
