package autodiff

import (
	"maps"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// moreContribCases are operators of com.microsoft that few runtimes know. Most take float32
// and no float64.
var moreContribCases = func() []ruleCase {
	short := func(shape []int, v ...int64) operand {
		o := indices(shape, v...)
		o.elem = graph.Int32
		return o
	}
	bytes := func(shape []int, v ...int64) operand {
		o := indices(shape, v...)
		o.elem = graph.Uint8
		return o
	}
	linear := func(rule string, more ...operand) ruleCase {
		in := append([]operand{param(2, 3, 8), param(2, 3, 4), param(2, 3, 6)}, more...)
		return ruleCase{op: "LinearAttention", name: rule, in: in, attrs: attrs{"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}, outputs: 2}
	}
	state, decay, beta := param(2, 2, 2, 3), param(2, 3, 4).in(-0.9, -0.1), param(2, 3, 2).in(0.1, 0.9)
	tokens := func(name string, a attrs, more ...operand) ruleCase {
		a["k"] = 2
		return ruleCase{op: "MoE", name: name, in: append([]operand{param(2, 2, 3), param(4, 3).in(-2, 2)}, more...), attrs: a}
	}
	group := attrs{"num_heads": 4, "kv_num_heads": 2}
	with := func(a attrs, more attrs) attrs {
		b := maps.Clone(a)
		maps.Copy(b, more)
		return b
	}
	apart := func(more ...operand) []operand {
		return append([]operand{param(2, 3, 32), param(2, 3, 16), param(2, 3, 16), omitted, omitted, short([]int{2}, 2, 2), short(nil, 3)}, more...)
	}
	packed := func(rows, blocks, each int) operand {
		var v []int64
		for i := range rows * blocks * each {
			v = append(v, int64(i*37+11)%256)
		}
		return bytes([]int{rows, blocks, each}, v...)
	}
	cases := []ruleCase{
		{op: "Trilu", in: []operand{param(2, 3, 4), number(1)}},
		{op: "Trilu", name: "lower", in: []operand{param(3, 4)}, attrs: attrs{"upper": 0}},
		{op: "ExpandDims", in: []operand{param(2, 3), short(nil, -2).fixed()}},
		{op: "GroupNorm", in: []operand{param(2, 2, 3, 4), param(4), param(4)}, attrs: attrs{"groups": 2, "activation": 1}},
		{op: "GroupNorm", name: "channels first", in: []operand{param(2, 4, 2, 3), param(4), param(4)}, attrs: attrs{"groups": 2, "activation": 0, "channels_last": 0, "epsilon": 0.1}},
		{op: "SkipGroupNorm", in: []operand{param(2, 2, 3, 4), param(4), param(4), param(2, 4), param(4)}, attrs: attrs{"groups": 2, "activation": 1}, outputs: 2},
		{op: "SkipGroupNorm", name: "image, channels first", in: []operand{param(2, 4, 2, 2), param(4), param(4), param(2, 4, 2, 2)}, attrs: attrs{"groups": 4, "activation": 0, "channels_last": 0}},
		{op: "GatedRMSNorm", in: []operand{param(2, 2, 6), param(3), param(2, 2, 6)}},
		{op: "GatedRMSNorm", name: "sigmoid", in: []operand{param(2, 4), param(4), param(2, 4)}, attrs: attrs{"activation": "sigmoid", "epsilon": 0.1}},
		{op: "BiasSplitGelu", in: []operand{param(2, 3, 8), param(8)}},
		{op: "NhwcConv", in: []operand{param(2, 4, 5, 2), param(4, 1, 2, 3), param(4)}, attrs: attrs{"group": 2, "pads": []int64{1, 0, 0, 1}}},
		{op: "NhwcFusedConv", in: []operand{param(1, 3, 3, 2), param(3, 2, 2, 2), param(3), param(1, 2, 2, 3)}, attrs: attrs{"activation": "Tanh"}},
		{op: "FusedMatMulActivation", in: []operand{param(3, 2), param(3, 4)}, attrs: attrs{"transA": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2}},
		{op: "GemmaRotaryEmbedding", in: []operand{param(2, 3, 4), param(2, 2, 3, 4), param(2, 2, 3, 4), param(2, 2, 3, 4), param(2, 2, 3, 4)}, outputs: 2},
		{op: "MRotaryEmbedding", in: []operand{param(2, 3, 12), indices([]int{3, 2, 3}, 0, 1, 2, 3, 4, 0, 1, 1, 2, 2, 3, 3, 4, 0, 4, 0, 1, 2), param(5, 3), param(5, 3)}, attrs: attrs{"mrope_section": []int64{1, 1, 1}, "num_heads": 2}},
		{op: "MRotaryEmbedding", name: "interleaved", in: []operand{param(1, 2, 2, 12), indices([]int{3, 1, 2}, 0, 1, 2, 3, 4, 0), param(5, 6), param(5, 6)}, attrs: attrs{"mrope_section": []int64{2, 2, 2}, "mrope_layout": 1}},

		{op: "GroupQueryAttention", in: apart(), attrs: group, outputs: 3},
		{op: "GroupQueryAttention", name: "rotary, packed", in: []operand{param(2, 3, 64), omitted, omitted, omitted, omitted, short([]int{2}, 2, 2), short(nil, 3), param(4, 4), param(4, 4)}, attrs: with(group, attrs{"do_rotary": 1, "scale": 0.7, "softcap": 0.5}), outputs: 3},
		{op: "GroupQueryAttention", name: "rotary, positions, window", in: apart(param(5, 4), param(5, 4), indices([]int{2, 3}, 0, 1, 2, 1, 2, 4)), attrs: with(group, attrs{"do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 2}), outputs: 3, use: []int{0, 1}},
		{op: "GroupQueryAttention", name: "bias, both directions", in: append([]operand{param(2, 3, 32), param(2, 3, 16), param(2, 3, 16), omitted, omitted, short([]int{2}, 1, 2), short(nil, 3)}, omitted, omitted, omitted, param(1, 1, 3, 3)), attrs: with(group, attrs{"causal": 0}), outputs: 3, use: []int{0}},

		tokens("relu", attrs{}, param(3, 5, 3), param(3, 5), param(3, 3, 5), param(3, 3)),
		tokens("gelu, normalised weights", attrs{"activation_type": "gelu", "normalize_routing_weights": 1}, param(3, 5, 3), omitted, param(3, 3, 5)),
		tokens("silu, third layer", attrs{"activation_type": "silu"}, param(3, 5, 3), omitted, param(3, 3, 5), omitted, param(3, 5, 3)),
		tokens("swiglu, apart", attrs{"activation_type": "swiglu"}, param(3, 5, 3), param(3, 5), param(3, 3, 5), param(3, 3), param(3, 5, 3), param(3, 5)),
		tokens("swiglu, interleaved, limit", attrs{"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.5}, param(3, 4, 3), param(3, 4), param(3, 3, 2), param(3, 3)),
		tokens("swiglu, halves", attrs{"activation_type": "swiglu", "swiglu_fusion": 2}, param(3, 4, 3), omitted, param(3, 3, 2)),

		linear("linear", state),
		linear("gated", state, decay),
		linear("delta", omitted, omitted, beta),
		linear("gated_delta", state, param(2, 3, 2).in(-0.9, -0.1), param(2, 3, 1).in(0.1, 0.9)),
		{op: "CausalConvWithState", name: "channels last, dilation", in: []operand{param(2, 5, 3), param(3, 1, 3), param(3), param(2, 4, 3)}, attrs: attrs{"channels_last": 1, "dilation": 2, "activation": "silu"}, outputs: 2},

		{op: "CDist", in: []operand{param(3, 4), param(2, 4)}},
		{op: "CDist", name: "euclidean", in: []operand{param(3, 4), param(2, 4)}, attrs: attrs{"metric": "euclidean"}},
		{op: "CropAndResize", in: []operand{param(2, 3, 4, 5), unitBoxes, short([]int{3}, 1, 0, 1), short([]int{2}, 2, 3).fixed()}},
		{op: "CropAndResize", name: "nearest, one row", in: []operand{param(2, 2, 4, 5), unitBoxes, short([]int{3}, 1, 0, 1), short([]int{2}, 1, 4).fixed()}, attrs: attrs{"mode": "nearest", "extrapolation_value": 0.5}},
		{op: "MatMulNBits", in: []operand{param(2, 2, 20), packed(3, 2, 8), param(3, 2).fed()}, attrs: attrs{"N": 3, "K": 20, "block_size": 16, "bits": 4}},
		{op: "MatMulNBits", name: "zero points, bias", in: []operand{param(2, 40), packed(2, 3, 8), param(2, 3).fed(), bytes([]int{2, 2}, 0x37, 5, 0x92, 9), omitted, param(2)}, attrs: attrs{"N": 2, "K": 40, "block_size": 16, "bits": 4}},
		{op: "MatMulNBits", name: "eight bits", in: []operand{param(2, 32), packed(2, 2, 16), param(2, 2).fed(), bytes([]int{2, 2}, 100, 120, 128, 3)}, attrs: attrs{"N": 2, "K": 32, "block_size": 16, "bits": 8}},
		{op: "DequantizeLinear", in: []operand{bytes([]int{2, 3}, 1, 200, 30, 4, 50, 6), param(3), bytes([]int{3}, 100, 2, 7)}},
	}
	for i := range cases {
		c := &cases[i]
		c.domain = microsoft
		for k := range c.in {
			if c.in[k].elem == graph.Float64 {
				c.in[k].elem = graph.Float32
			}
		}
	}
	eight := func(elem graph.DType, shape []int, v ...int64) operand {
		o := indices(shape, v...)
		o.elem = elem
		return o
	}
	float := func(shape ...int) operand { return param(shape...).as(graph.Float32) }
	return append(
		cases,
		ruleCase{op: "DequantizeLinear", in: []operand{eight(graph.Uint8, []int{2, 3}, 1, 200, 30, 4, 50, 6), float(), eight(graph.Uint8, nil, 100)}, opsets: []int64{10, 13, 19, 21}},
		ruleCase{op: "DequantizeLinear", name: "channels, no zero point", in: []operand{eight(graph.Int8, []int{2, 3}, 1, -100, 30, 4, 50, 6), float(2)}, attrs: attrs{"axis": -2}, opsets: []int64{13, 21}},
		ruleCase{op: "DequantizeLinear", name: "blocks", in: []operand{eight(graph.Int8, []int{2, 5}, 1, -100, 30, 4, 50, 6, 7, 8, 9, 10), float(2, 3), eight(graph.Int8, []int{2, 3}, 1, 2, 3, 4, 5, 6)}, attrs: attrs{"axis": 1, "block_size": 2}, opsets: []int64{21}},
	)
}()

// unitBoxes are boxes [y1, x1, y2, x2] relative to the image; one reaches beyond it, one
// is upside down.
var unitBoxes = param(3, 4).of(0.12, 0.2, 0.81, 0.93, -0.3, -0.21, 1.22, 1.4, 0.9, 0.83, 0.17, 0.11).fed()

// linearAttentionCases are those of ai.onnx.
var linearAttentionCases = func() []ruleCase {
	var cases []ruleCase
	for _, c := range moreContribCases {
		if c.op == "LinearAttention" {
			c.domain, c.opsets = "", []int64{27}
			cases = append(cases, c)
		}
	}
	return cases
}()

// mlCases are operators of ai.onnx.ml.
var mlCases = func() []ruleCase {
	tree := func(more attrs) attrs {
		a := attrs{
			"nodes_treeids": []int64{0, 0, 0}, "nodes_nodeids": []int64{0, 1, 2}, "nodes_featureids": []int64{1, 0, 0},
			"nodes_modes": []string{"BRANCH_LEQ", "LEAF", "LEAF"}, "nodes_values": []float64{0.1, 0, 0},
			"nodes_truenodeids": []int64{1, 0, 0}, "nodes_falsenodeids": []int64{2, 0, 0},
		}
		maps.Copy(a, more)
		return a
	}
	reals := func(v ...float64) *graph.Data {
		return dataOf(&reference.Tensor{Type: graph.Float32, Shape: []int{len(v)}, F: v})
	}
	cases := []ruleCase{
		{op: "TreeEnsembleRegressor", in: []operand{param(2, 3).as(graph.Float32)}, attrs: tree(attrs{
			"n_targets": 1, "target_treeids": []int64{0, 0}, "target_nodeids": []int64{1, 2}, "target_ids": []int64{0, 0}, "target_weights": []float64{0.5, 2},
		}), zero: true},
		{op: "TreeEnsembleClassifier", in: []operand{param(2, 3).as(graph.Float32)}, attrs: tree(attrs{
			"classlabels_int64s": []int64{0, 1, 2}, "class_treeids": []int64{0, 0}, "class_nodeids": []int64{1, 2}, "class_ids": []int64{0, 1}, "class_weights": []float64{0.5, 2},
		}), outputs: 2, zero: true},
		{op: "TreeEnsemble", in: []operand{param(2, 3).as(graph.Float32)}, attrs: attrs{
			"n_targets": 1, "tree_roots": []int64{0}, "nodes_featureids": []int64{1}, "nodes_splits": reals(0.1),
			"nodes_modes":       dataOf(&reference.Tensor{Type: graph.Uint8, Shape: []int{1}, I: []int64{0}}),
			"nodes_truenodeids": []int64{0}, "nodes_trueleafs": []int64{1}, "nodes_falsenodeids": []int64{1}, "nodes_falseleafs": []int64{1},
			"leaf_targetids": []int64{0, 0}, "leaf_weights": reals(0.5, 2),
		}, zero: true},
		{op: "Scaler", in: []operand{param(2, 3)}, attrs: attrs{"offset": []float64{0.5, 1, 2}, "scale": []float64{0.7, 2, 3}}},
		{op: "Normalizer", name: "MAX", in: []operand{param(2, 3).in(0.2, 0.9)}, attrs: attrs{"norm": "MAX"}},
		{op: "Normalizer", name: "L1", in: []operand{param(2, 3)}, attrs: attrs{"norm": "L1"}},
		{op: "Normalizer", name: "L2", in: []operand{param(2, 3)}, attrs: attrs{"norm": "L2"}},
		{op: "LinearRegressor", in: []operand{param(2, 3)}, attrs: attrs{"targets": 2, "coefficients": []float64{0.5, -1, 0.25, 1.5, 2, -0.75}, "intercepts": []float64{0.5, 1}}},
		{op: "Imputer", in: []operand{param(2, 3)}, attrs: attrs{"replaced_value_float": -7.0, "imputed_value_floats": []float64{0.5}}},
		{op: "Imputer", name: "NaN", in: []operand{param(2, 3)}, attrs: attrs{"replaced_value_float": math.NaN(), "imputed_value_floats": []float64{0.5, 1, 2}}},
		{op: "FeatureVectorizer", in: []operand{param(2, 3).as(graph.Float32), param(2, 1).as(graph.Float32)}, attrs: attrs{"inputdimensions": []int64{3, 1}}},
		{op: "ArrayFeatureExtractor", in: []operand{param(2, 4), indices([]int{3}, 3, 0, 3)}},
		{op: "Binarizer", in: []operand{param(2, 3)}, attrs: attrs{"threshold": 0.1}, zero: true},
		{op: "LabelEncoder", in: []operand{param(2).of(1.5, 2.5).as(graph.Float32)}, attrs: attrs{"keys_floats": []float64{1, 2}, "values_floats": []float64{3, 4}}, zero: true},
		{op: "OneHotEncoder", in: []operand{param(2).of(1.5, 2.5)}, attrs: attrs{"cats_int64s": []int64{1, 2}}, zero: true},
	}
	for i := range cases {
		cases[i].domain = "ai.onnx.ml"
	}
	return cases
}()
