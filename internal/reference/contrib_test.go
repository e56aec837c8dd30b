package reference

import "github.com/onnxmem/onnxmem/graph"

// vectors are four support vectors of two features, and the parameters of a kernel.
var vectors = []*graph.Attr{{Name: "kernel_params", Floats: []float32{0.5, 0.25, 2}}, {Name: "support_vectors", Floats: []float32{1, 0, 0, 1, -1, -1, 2, 1}}}

// byRuntime are results of ONNX Runtime 1.31.1 on a CPU, in float32.
var byRuntime = []handCase{
	{"", "Affine", []*graph.Attr{{Name: "alpha", Float: 1.5}, {Name: "beta", Float: -0.25}}, []*Tensor{Reals([]int{3}, -0.5, 0, 2)}, Reals([]int{3}, -1, -0.25, 2.75)},
	{"", "Scale", []*graph.Attr{{Name: "scale", Float: 2.5}}, []*Tensor{Reals([]int{3}, -1, 0, 1)}, Reals([]int{3}, -2.5, 0, 2.5)},
	{"", "ScaledTanh", []*graph.Attr{{Name: "alpha", Float: 2}, {Name: "beta", Float: 0.5}}, []*Tensor{Reals([]int{4}, -1, 0, 1, 100)}, Reals([]int{4}, -0.9242343, 0, 0.9242343, 2)},
	{"", "ParametricSoftplus", []*graph.Attr{{Name: "alpha", Float: 2}, {Name: "beta", Float: 0.5}}, []*Tensor{Reals([]int{4}, -1, 0, 1, 100)}, Reals([]int{4}, 0.948154, 1.3862944, 1.948154, 100)},
	{"", "Crop", []*graph.Attr{{Name: "border", Ints: []int64{1, 0, 2, 1}}}, []*Tensor{Reals([]int{1, 1, 3, 4}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}, Reals([]int{1, 1, 2, 1}, 2, 6)},
	{"", "Crop", []*graph.Attr{{Name: "border", Ints: []int64{1, 0, 0, 0}}, {Name: "scale", Ints: []int64{2, 2}}}, []*Tensor{Reals([]int{1, 1, 3, 4}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)}, Reals([]int{1, 1, 2, 2}, 2, 3, 6, 7)},
	{"", "ImageScaler", []*graph.Attr{{Name: "scale", Float: 0.5}, {Name: "bias", Floats: []float32{-1, 2}}}, []*Tensor{Reals([]int{1, 2, 1, 2}, 1, 2, 3, 4)}, Reals([]int{1, 2, 1, 2}, -0.5, 0, 3.5, 4)},
	{
		"ai.onnx.ml", "SVMRegressor",
		append([]*graph.Attr{{Name: "kernel_type", String: "SIGMOID"}, {Name: "n_supports", Int: 4}, {Name: "coefficients", Floats: []float32{1, -0.5, 0.25, -1}}, {Name: "rho", Floats: []float32{0.1}}}, vectors...),
		[]*Tensor{Reals([]int{3, 2}, 0, 1, 2, -1, -1.5, 0.5)},
		&Tensor{Type: graph.Float32, Shape: []int{3, 1}, F: []float64{-0.66903448, 0.0681378, 0.32720569}},
	},
	{
		"ai.onnx.ml", "SVMRegressor",
		[]*graph.Attr{{Name: "coefficients", Floats: []float32{1, -0.5}}, {Name: "rho", Floats: []float32{0.1}}},
		[]*Tensor{Reals([]int{3, 2}, 0, 1, 2, -1, -1.5, 0.5)},
		&Tensor{Type: graph.Float32, Shape: []int{3, 1}, F: []float64{-0.4, 2.6, -1.65}},
	},
	{
		"ai.onnx.ml", "SVMClassifier",
		append([]*graph.Attr{
			{Name: "kernel_type", String: "RBF"},
			{Name: "coefficients", Floats: []float32{1, -0.5, 0.25, -1, 0.5, 0.75, -0.25, 0.5}},
			{Name: "rho", Floats: []float32{0.1, -0.2, 0.3}},
			{Name: "classlabels_ints", Ints: []int64{7, 8, 9}},
			{Name: "vectors_per_class", Ints: []int64{1, 2, 1}},
		}, vectors...),
		[]*Tensor{Reals([]int{3, 2}, 0, 1, 2, -1, -1.5, 0.5)},
		Ints([]int{3}, 8, 7, 7),
	},
	{
		"com.microsoft", "SkipLayerNormalization",
		[]*graph.Attr{{Name: "epsilon", Float: 0.01}},
		[]*Tensor{Reals([]int{1, 2, 3}, -0.1, 0, 0.5, 0.9, -0.9, -0.7), Reals([]int{1, 2, 3}, 0.6, 0.9, -0.5, -0.4, 0.7, -0.1), Reals([]int{3}, -0.4, 0.6, -0.5), Reals([]int{3}, -0.2, 0.3, 0.1), Reals([]int{3}, -0.8, -0.9, 0.7)},
		Reals([]int{1, 2, 3}, 0.202388, 0.114282, -0.55775, -0.380395, -0.511778, -0.350988),
	},
	{
		"com.microsoft", "SkipSimplifiedLayerNormalization",
		[]*graph.Attr{{Name: "epsilon", Float: 0.01}},
		[]*Tensor{Reals([]int{1, 2, 3}, 0.5, 0.6, 0.1, 0.6, -0.3, -0.1), Reals([]int{1, 2, 3}, 0.5, -0.7, -0.4, -0.7, -0.1, 0.9), Reals([]int{3}, -0.7, -0.2, -0.2), Reals([]int{3}, 0.8, -0.6, 0)},
		Reals([]int{1, 2, 3}, -1.11225, 0.123583, 0.0529641, -0.577471, 0.235702, -0.188562),
	},
	{
		"com.microsoft", "EmbedLayerNormalization",
		[]*graph.Attr{{Name: "epsilon", Float: 0.01}},
		[]*Tensor{Ints([]int{1, 3}, 1, 0, 2), Ints([]int{1, 3}, 0, 1, 1), Reals([]int{3, 4}, -0.5, -0.9, 0.5, -0.8, -0.4, 0, 0, -0.7, 0.9, 0.5, 0.9, -0.8), Reals([]int{4, 4}, 0.4, -0.4, 0.1, 0.8, -0.4, 0.4, -0.6, -0.3, 0.9, -0.1, 0, -0.4, -0.7, -0.1, 0.2, -0.1), Reals([]int{2, 4}, 0.5, -0.3, 0.2, 0.5, 0.8, -0.1, -0.9, 0.4), Reals([]int{4}, 0.1, 0.7, -0.1, -0.3), Reals([]int{4}, -0.8, -0.1, 0.3, 0.5)},
		Reals([]int{1, 3, 4}, -0.738235, -1.26403, 0.276244, 0.257692, -0.652558, -0.0999999, 0.417954, 0.588465, -0.636308, -0.224248, 0.341416, 0.813578),
	},
	{
		"com.microsoft", "FusedConv",
		[]*graph.Attr{{Name: "activation", String: "LeakyRelu"}, {Name: "activation_params", Floats: []float32{0.25}}},
		[]*Tensor{Reals([]int{1, 1, 3, 3}, 0, -0.8, -0.5, 0.7, 0.3, 0.7, 0.6, 0.7, -0.4), Reals([]int{1, 1, 2, 2}, -0.1, 0.2, -0.4, 0.8), Reals([]int{1}, -0.9)},
		Reals([]int{1, 1, 2, 2}, -0.275, -0.12, -0.1475, -0.3475),
	},
	{
		"com.microsoft", "FusedConv",
		[]*graph.Attr{{Name: "activation", String: "Relu"}},
		[]*Tensor{Reals([]int{1, 1, 3, 3}, 0.6, 0.3, -0.5, 0.4, -0.2, 0.6, 0.9, -0.4, -0.1), Reals([]int{1, 1, 2, 2}, -0.5, 0.4, 0.3, 0.7), Reals([]int{1}, 0.6), Reals([]int{1, 1, 2, 2}, 0.9, 0.9, 0.8, -0.7)},
		Reals([]int{1, 1, 2, 2}, 1.3, 1.51, 1.11, 0.0500001),
	},
	{
		"com.microsoft", "FusedGemm",
		[]*graph.Attr{{Name: "activation", String: "Elu"}, {Name: "activation_alpha", Float: 0.5}, {Name: "alpha", Float: 0.5}, {Name: "transB", Int: 1}},
		[]*Tensor{Reals([]int{2, 3}, -0.9, 0, -0.3, 0.7, 0.6, -0.1), Reals([]int{2, 3}, 0.1, 0.2, 0.7, -0.9, 0, 0.3), Reals([]int{2}, -0.1, 0.8)},
		Reals([]int{2, 2}, -0.1106, 1.16, -0.0196053, 0.47),
	},
	{
		"com.microsoft", "FusedGemm", // 0.2 is the alpha of HardSigmoid itself
		[]*graph.Attr{{Name: "activation", String: "HardSigmoid"}, {Name: "activation_beta", Float: 0.25}},
		[]*Tensor{Reals([]int{1, 2}, 1, 2), Reals([]int{2, 3}, 0.5, -0.5, -1, 0.25, -0.5, 2)},
		Reals([]int{1, 3}, 0.45, 0, 0.85),
	},
	{
		"com.microsoft", "Attention",
		[]*graph.Attr{{Name: "num_heads", Int: 2}},
		[]*Tensor{Reals([]int{1, 3, 2}, -0.4, -0.8, 0.5, 0.6, -0.1, -0.6), Reals([]int{2, 12}, -0.7, -0.2, 0.5, -0.3, -0.9, 0.4, 0.5, -0.6, 0.1, -0.2, 0, -0.9, 0.3, -0.5, 0.1, -0.1, 0.2, -0.7, -0.3, 0.3, 0.5, -0.2, -0.9, 0.4), Reals([]int{12}, 0, 0.3, -0.6, -0.1, 0.7, 0.7, -0.3, 0.3, -0.8, 0.6, -0.4, -0.3), Ints([]int{1, 3}, 1, 0, 1)},
		Reals([]int{1, 3, 4}, -1.17557, 0.790438, 0.232901, -0.351938, -1.17406, 0.789274, 0.229647, -0.355373, -1.1747, 0.789772, 0.231995, -0.352894),
	},
	{
		"com.microsoft", "Attention",
		[]*graph.Attr{{Name: "num_heads", Int: 2}, {Name: "unidirectional", Int: 1}},
		[]*Tensor{Reals([]int{1, 3, 2}, 0.9, 0.1, 0.7, -0.6, 0.5, 0.9), Reals([]int{2, 12}, -0.8, -0.5, -0.7, -0.5, -0.4, -0.8, 0.8, -0.5, 0.8, 0.5, -0.6, 0.4, 0.5, -0.7, -0.7, -0.2, -0.8, -0.2, 0, 0.3, 0.1, -0.1, -0.5, 0.2), Reals([]int{12}, -0.1, 0.6, 0.4, 0.4, 0.1, -0.3, -0.4, -0.1, 0.1, -0.3, -0.7, -0.7)},
		Reals([]int{1, 3, 4}, 0.83, 0.14, -1.29, -0.32, 0.73169, 0.127177, -1.06094, -0.42722, 0.675739, 0.0355672, -1.18928, -0.393585),
	},
	{
		"com.microsoft", "MultiHeadAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 2}},
		[]*Tensor{Reals([]int{1, 2, 4}, -0.9, -0.6, -0.2, -0.4, -0.6, -0.4, 0.4, -0.4), Reals([]int{1, 3, 4}, 0.8, 0.1, -0.7, 0.9, 0.7, 0.5, -0.7, 0.6, 0.4, 0.5, 0.4, 0.2), Reals([]int{1, 3, 4}, -0.3, 0.8, 0.9, 0.4, -0.3, 0, 0.1, -0.8, -0.8, 0, 0.1, -0.5), Reals([]int{12}, -0.4, -0.7, 0.8, 0, -0.4, 0.5, 0.9, -0.4, 0.8, 0.5, 0.6, 0), Ints([]int{1, 3}, 1, 1, 0)},
		Reals([]int{1, 2, 4}, 0.5, 0.954807, 1.08304, -0.225441, 0.5, 0.947853, 1.08304, -0.225441),
	},
	{
		"com.microsoft", "GroupQueryAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 2}, {Name: "kv_num_heads", Int: 1}, {Name: "local_window_size", Int: 2}, {Name: "softcap", Float: 0.5}},
		[]*Tensor{Reals([]int{1, 3, 16}, 0.3, 0.6, -0.9, 0.6, -0.1, 0, 0.2, -0.4, 0.9, -0.8, -0.4, -0.2, 0.1, -0.2, -0.7, -0.9, -0.9, -0.9, -0.7, 0.9, -0.6, 0.3, 0.5, -0.5, -0.4, -0.1, -0.4, 0.9, -0.6, 0.8, 0.6, 0.7, -0.7, -0.2, 0.2, 0, 0.3, 0.3, 0.3, -0.8, 0.9, 0.1, 0.8, -0.4, -0.3, 0.7, -0.6, -0.8), Reals([]int{1, 3, 8}, -0.2, 0.3, -0.7, 0.7, -0.3, -0.5, 0.1, 0.8, 0.7, 0.7, -0.4, -0.9, 0.5, 0.4, 0.5, -0.9, -0.9, 0, -0.3, -0.1, 0.8, -0.6, 0.1, -0.3), Reals([]int{1, 3, 8}, -0.4, 0.6, -0.7, -0.3, -0.7, -0.7, -0.4, 0.4, 0.2, -0.1, -0.6, 0.6, 0.6, -0.5, -0.8, -0.3, -0.7, 0.6, 0, 0, -0.4, 0, 0.9, -0.5), nil, nil, wholesOf(graph.Int32, []int{1}, 2), wholesOf(graph.Int32, []int{}, 3)},
		Reals([]int{1, 3, 16}, -0.4, 0.6, -0.7, -0.3, -0.7, -0.7, -0.4, 0.4, -0.4, 0.6, -0.7, -0.3, -0.7, -0.7, -0.4, 0.4, -0.185954, 0.35028, -0.664326, 0.0210685, -0.236234, -0.628651, -0.542697, 0.15028, -0.205796, 0.373429, -0.667633, -0.00869447, -0.279225, -0.635265, -0.529469, 0.173429, -0.28004, 0.273365, -0.279973, 0.279973, 0.0666221, -0.233311, 0.106742, -0.406676, -0.088213, 0.124166, -0.407858, 0.407858, 0.279763, -0.339882, -0.255598, -0.364047),
	},
	{
		"com.microsoft", "GroupQueryAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 1}, {Name: "kv_num_heads", Int: 1}, {Name: "scale", Float: 1.5}},
		[]*Tensor{Reals([]int{1, 1, 24}, 0.5, -0.9, -0.4, 0.8, 0.7, -0.8, 0.7, 0.7, -0.1, -0.3, 0.9, 0.9, 0.3, -0.2, -0.6, 0.8, -0.4, 0.1, 0.3, -0.5, -0.4, 0.5, -0.6, 0.3), nil, nil, Reals([]int{1, 1, 4, 8}, 0.8, 0.3, 0.3, -0.1, 0.9, -0.5, -0.3, 0.3, 0.3, -0.7, -0.6, 0.4, 0.6, 0.3, 0.8, -0.2, -0.3, 0.6, -0.9, -0.6, -0.6, -0.2, -0.7, 0.6, 0.7, -0.2, -0.9, 0.4, -0.7, 0.2, -0.6, 0.8), Reals([]int{1, 1, 4, 8}, 0.3, 0.9, 0.2, 0.4, -0.2, 0.6, -0.7, -0.7, -0.3, 0.4, 0, 0.7, 0.8, -0.2, -0.1, 0.1, 0.3, 0, 0.2, 0.9, 0.4, -0.3, -0.1, -0.2, -0.7, -0.9, 0.6, -0.2, -0.3, 0.2, 0.1, 0.8), wholesOf(graph.Int32, []int{1}, 2), wholesOf(graph.Int32, []int{1}, 3), nil, nil, nil, Reals([]int{1, 1, 1, 3}, 0.2, 0.8, 0.1), Reals([]int{1}, -0.3)},
		Reals([]int{1, 1, 8}, -0.247567, 0.411076, 0.0521133, 0.530827, 0.560572, -0.0427938, -0.211668, 0.0415394),
	},
	{
		"com.microsoft", "GroupQueryAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 1}, {Name: "kv_num_heads", Int: 1}, {Name: "do_rotary", Int: 1}, {Name: "smooth_softmax", Int: 1}},
		[]*Tensor{Reals([]int{1, 1, 48}, -0.3, 0.9, 0.2, -0.6, 0.6, 0.6, -0.9, -0.7, 0.4, -0.2, -0.3, -0.8, -0.6, 0.7, 0.6, 0.6, 0.1, -0.7, -0.3, 0.1, 0.9, -0.5, 0.1, 0, 0, 0.1, 0.4, -0.7, 0.9, 0.7, 0.5, -0.4, -0.1, -0.1, -0.4, -0.8, 0.5, -0.9, 0.5, -0.6, 0.3, -0.3, -0.5, 0.8, 0, 0.7, -0.6, 0), nil, nil, Reals([]int{1, 1, 1, 16}, -0.3, -0.1, -0.9, 0.3, -0.3, 0.7, -0.5, -0.3, -0.9, 0.6, 0.1, -0.2, 0.8, 0.2, 0.9, 0.5), Reals([]int{1, 1, 1, 16}, 0.2, 0, -0.6, 0.4, 0.6, 0.4, -0.2, -0.9, 0.4, -0.9, 0.6, -0.7, -0.4, -0.5, 0.1, -0.6), wholesOf(graph.Int32, []int{1}, 1), wholesOf(graph.Int32, []int{1}, 2), Reals([]int{3, 8}, -0.5, -0.9, 0.9, -0.5, -0.6, 0.2, -0.7, 0.7, 0.5, -0.3, -0.2, -0.3, 0.4, -0.2, -0.4, 0.3, -0.7, 0.5, -0.1, 0.8, -0.5, -0.2, 0.7, 0.4), Reals([]int{3, 8}, -0.9, -0.3, -0.9, 0.6, -0.2, -0.5, 0.4, 0.7, -0.8, 0, -0.3, 0.4, 0.8, 0.1, 0.5, -0.3, 0.2, 0, 0.4, -0.9, -0.5, -0.9, 0.9, 0.1)},
		Reals([]int{1, 1, 16}, 0.0226778, -0.035708, -0.317989, -0.168893, 0.353697, -0.204601, 0.120154, -0.476984, 0.223896, -0.36986, -0.00338273, 0.0813139, -0.116772, 0.103992, -0.185055, -0.175157),
	},
	{
		"com.microsoft", "MultiHeadAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 2}, {Name: "unidirectional", Int: 1}},
		[]*Tensor{Reals([]int{1, 2, 4}, 0.3, 0.6, -0.9, 0.6, -0.1, 0, 0.2, -0.4), Reals([]int{1, 2, 4}, 0.9, -0.8, -0.4, -0.2, 0.1, -0.2, -0.7, -0.9), Reals([]int{1, 2, 4}, -0.9, -0.9, -0.7, 0.9, -0.6, 0.3, 0.5, -0.5), Reals([]int{12}, -0.4, -0.1, -0.4, 0.9, -0.6, 0.8, 0.6, 0.7, -0.7, -0.2, 0.2, 0), nil, Reals([]int{1, 1, 2, 3}, 0.3, 0.3, 0.3, -0.8, 0.9, 0.1), Reals([]int{1, 2, 1, 2}, 0.8, -0.4, -0.3, 0.7), Reals([]int{1, 2, 1, 2}, -0.6, -0.8, -0.2, 0.3)},
		Reals([]int{1, 2, 4}, -1.14408, -0.963224, -0.301431, 0.502863, -1.40976, -0.676049, -0.181338, 0.494856),
	},
	{
		"com.microsoft", "MultiHeadAttention",
		[]*graph.Attr{{Name: "num_heads", Int: 1}, {Name: "scale", Float: 2}, {Name: "mask_filter_value", Float: -1}},
		[]*Tensor{Reals([]int{1, 2, 2}, -0.7, 0.7, -0.3, -0.5), Reals([]int{1, 1, 3, 2}, 0.1, 0.8, 0.7, 0.7, -0.4, -0.9), Reals([]int{1, 1, 3, 2}, 0.5, 0.4, 0.5, -0.9, -0.9, 0), nil, wholesOf(graph.Int32, []int{1}, 2)},
		Reals([]int{1, 2, 2}, 0.43352, 0.0430924, -0.347697, -0.0654766),
	},
	{
		"com.microsoft", "GatherBlockQuantized",
		[]*graph.Attr{{Name: "gather_axis", Int: 0}, {Name: "quantize_axis", Int: 1}, {Name: "block_size", Int: 16}},
		[]*Tensor{wholesOf(graph.Uint8, []int{3, 10}, 171, 206, 5, 206, 120, 131, 161, 73, 250, 13, 71, 98, 146, 104, 33, 11, 0, 12, 38, 255, 48, 167, 192, 60, 72, 111, 67, 249, 45, 229), Ints([]int{1, 2}, 2, -3), Reals([]int{3, 2}, 0.6, 0.7, -0.7, -0.2, 0.2, 0), wholesOf(graph.Uint8, []int{3, 1}, 170, 173, 169)},
		Reals([]int{1, 2, 20}, -1.8, -1.2, -0.4, 0.2, -1.8, 0.6, 0.6, -1.2, -0.2, -1, 1.2, -0.6, -1.2, -1, 0, 1.2, 0, -0, -0, 0, 0.6, 0, 2.4, 1.2, -3, -6, 2.4, 1.2, -1.2, -1.8, -4.2, -1.2, -5.4, 0, -0.6, -3.6, 0, 3.5, 2.1, -7),
	},
	{
		"com.microsoft", "GatherBlockQuantized",
		[]*graph.Attr{{Name: "gather_axis", Int: 0}, {Name: "quantize_axis", Int: 1}, {Name: "block_size", Int: 16}, {Name: "bits", Int: 8}},
		[]*Tensor{wholesOf(graph.Uint8, []int{3, 18}, 15, 245, 142, 231, 69, 92, 225, 47, 16, 95, 173, 31, 222, 87, 58, 139, 229, 226, 223, 78, 4, 199, 181, 197, 0, 9, 128, 85, 111, 238, 52, 135, 83, 75, 206, 39, 81, 30, 38, 71, 178, 148, 114, 43, 204, 204, 60, 15, 81, 37, 204, 133, 129, 74), Ints([]int{1}, 1), Reals([]int{3, 2}, 0, 0.9, -0.5, 0.5, -0.9, -0.4)},
		Reals([]int{1, 18}, -47.5, 25, 62, -35.5, -26.5, -34.5, 64, 59.5, -0, 21.5, 8.5, -55, 38, -3.5, 22.5, 26.5, 39, -44.5),
	},
	{
		"com.microsoft", "RotaryEmbedding", nil,
		[]*Tensor{Reals([]int{1, 2, 8}, 0.8, -0.7, -0.8, 0.9, 0, -0.2, 0.4, -0.4, 0.3, 0.7, 0.6, -0.7, 0.9, 0.4, 0.4, -0.6), Ints([]int{1}, 1), Reals([]int{4, 2}, 0.8, -0.2, 0.8, -0.5, -0.8, 0.6, 0.2, -0.2), Reals([]int{4, 2}, 0.9, 0.9, -0.9, 0.2, 0.6, 0.4, 0.2, 0)},
		Reals([]int{1, 2, 8}, -0.08, 0.17, -1.36, -0.59, 0.36, 0.18, 0.32, 0.16, -0.6, 0.7, -0.3, -0.14, -0.96, 0.48, 0.22, -0.2),
	},
	{
		"com.microsoft", "RotaryEmbedding",
		[]*graph.Attr{{Name: "interleaved", Int: 1}},
		[]*Tensor{Reals([]int{1, 2, 2, 4}, 0.1, -0.4, -0.7, -0.2, 0.4, 0.8, 0.9, -0.6, -0.9, 0.9, 0.3, 0.5, 0.6, -0.3, 0.7, 0.3), Ints([]int{1, 2}, 2, 0), Reals([]int{4, 2}, 0.3, -0.2, -0.3, -0.2, 0.4, 0, -0.9, -0.9), Reals([]int{4, 2}, -0.6, 0, 0.2, 0.9, 0.5, -0.4, 0, 0.5)},
		Reals([]int{1, 2, 2, 4}, 0.24, -0.11, -0.08, 0.28, 0.6, -3.57628e-09, -0.18, 0.12, -0.81, -0.09, 0.2, -0.12, 7.15256e-09, -0.45, -0.14, -0.06),
	},
	{
		"com.microsoft", "QuantizeLinear",
		[]*graph.Attr{{Name: "axis", Int: 0}},
		[]*Tensor{Reals([]int{2, 3}, 0.8, 0.2, 0.3, 0.8, 0.1, 0.5), Reals([]int{2}, 0.08, 0.03), wholesOf(graph.Uint8, []int{2}, 14, 76)},
		wholesOf(graph.Uint8, []int{2, 3}, 24, 16, 18, 103, 79, 93),
	},
	{
		"com.microsoft", "DequantizeLinear", nil,
		[]*Tensor{wholesOf(graph.Int8, []int{2, 3}, -56, 95, 105, -127, -1, 82), Reals([]int{}, 0.0317), wholesOf(graph.Int8, []int{}, 5)},
		Reals([]int{2, 3}, -1.9337, 2.853, 3.17, -4.1844, -0.1902, 2.4409),
	},
	{
		"com.microsoft", "QLinearAdd", nil,
		[]*Tensor{wholesOf(graph.Uint8, []int{2, 3}, 33, 204, 30, 119, 209, 77), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Uint8, []int{3}, 87, 71, 184), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 140), Reals([]int{}, 0.0411), wholesOf(graph.Uint8, []int{}, 120)},
		wholesOf(graph.Uint8, []int{2, 3}, 44, 121, 118, 89, 123, 142),
	},
	{
		"com.microsoft", "QLinearMul", nil,
		[]*Tensor{wholesOf(graph.Int8, []int{2, 3}, -63, 125, -15, -6, 1, 21), Reals([]int{}, 0.0213), wholesOf(graph.Int8, []int{}, -10), wholesOf(graph.Int8, []int{2, 1}, 13, 2), Reals([]int{}, 0.0317), wholesOf(graph.Int8, []int{}, 14), Reals([]int{}, 0.0411), wholesOf(graph.Int8, []int{}, 12)},
		wholesOf(graph.Int8, []int{2, 3}, 13, 10, 12, 11, 10, 6),
	},
	{
		"com.microsoft", "QLinearSigmoid", nil,
		[]*Tensor{wholesOf(graph.Uint8, []int{6}, 254, 206, 202, 179, 159, 87), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 120), Reals([]int{}, 0.00390625), wholesOf(graph.Uint8, []int{}, 0)},
		wholesOf(graph.Uint8, []int{6}, 252, 240, 238, 222, 198, 67),
	},
	{
		"com.microsoft", "QLinearLeakyRelu",
		[]*graph.Attr{{Name: "alpha", Float: 0.25}},
		[]*Tensor{wholesOf(graph.Int8, []int{6}, 125, -9, -73, 88, -87, 91), Reals([]int{}, 0.0317), wholesOf(graph.Int8, []int{}, -20), Reals([]int{}, 0.025), wholesOf(graph.Int8, []int{}, 7)},
		wholesOf(graph.Int8, []int{6}, 127, 21, -10, 127, -14, 127),
	},
	{
		"com.microsoft", "QLinearSoftmax",
		[]*graph.Attr{{Name: "axis", Int: -1}, {Name: "opset", Int: 13}},
		[]*Tensor{wholesOf(graph.Uint8, []int{2, 4}, 156, 29, 11, 113, 9, 36, 131, 248), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 120), Reals([]int{}, 0.00390625), wholesOf(graph.Uint8, []int{}, 0)},
		wholesOf(graph.Uint8, []int{2, 4}, 169, 11, 8, 68, 1, 3, 19, 233),
	},
	{
		"com.microsoft", "QLinearSoftmax",
		[]*graph.Attr{{Name: "axis", Int: 1}, {Name: "opset", Int: 12}},
		[]*Tensor{wholesOf(graph.Int8, []int{2, 2, 2}, -9, 78, 106, 82, 33, -16, 3, -60), Reals([]int{}, 0.0213), wholesOf(graph.Int8, []int{}, 20), Reals([]int{}, 0.0073), wholesOf(graph.Int8, []int{}, -100)},
		wholesOf(graph.Int8, []int{2, 2, 2}, -95, -67, -39, -64, -33, -76, -64, -91),
	},
	{
		"com.microsoft", "QLinearWhere", nil,
		[]*Tensor{wholesOf(graph.Bool, []int{2, 3}, 0, 0, 0, 1, 0, 0), wholesOf(graph.Uint8, []int{3}, 49, 248, 177), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Uint8, []int{2, 3}, 225, 51, 184, 94, 125, 0), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 140), Reals([]int{}, 0.0411), wholesOf(graph.Uint8, []int{}, 120)},
		wholesOf(graph.Uint8, []int{2, 3}, 186, 51, 154, 94, 108, 12),
	},
	{
		"com.microsoft", "QLinearConcat",
		[]*graph.Attr{{Name: "axis", Int: 1}},
		[]*Tensor{Reals([]int{}, 0.0411), wholesOf(graph.Uint8, []int{}, 120), wholesOf(graph.Uint8, []int{2, 2}, 158, 212, 169, 39), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Uint8, []int{2, 1}, 136, 68), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 140)},
		wholesOf(graph.Uint8, []int{2, 3}, 150, 178, 117, 156, 88, 64),
	},
	{
		"com.microsoft", "QLinearAveragePool",
		[]*graph.Attr{{Name: "kernel_shape", Ints: []int64{2, 2}}},
		[]*Tensor{wholesOf(graph.Uint8, []int{1, 1, 3, 3}, 247, 225, 47, 130, 240, 216, 181, 163, 10), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 100), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 140)},
		wholesOf(graph.Uint8, []int{1, 1, 2, 2}, 255, 255, 255, 225),
	},
	{
		"com.microsoft", "QLinearGlobalAveragePool",
		[]*graph.Attr{{Name: "channels_last", Int: 0}},
		[]*Tensor{wholesOf(graph.Uint8, []int{1, 2, 2, 3}, 189, 121, 23, 62, 138, 186, 129, 156, 223, 175, 92, 164), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 100), Reals([]int{}, 0.0213), wholesOf(graph.Uint8, []int{}, 140)},
		wholesOf(graph.Uint8, []int{1, 2, 1, 1}, 170, 224),
	},
	{
		"com.microsoft", "QLinearGlobalAveragePool",
		[]*graph.Attr{{Name: "channels_last", Int: 1}},
		[]*Tensor{wholesOf(graph.Int8, []int{1, 2, 3, 2}, 25, -101, -113, 41, -29, 25, -46, -71, -90, -31, 80, -26), Reals([]int{}, 0.0317), wholesOf(graph.Int8, []int{}, 10), Reals([]int{}, 0.0213), wholesOf(graph.Int8, []int{}, -14)},
		wholesOf(graph.Int8, []int{1, 1, 1, 2}, -72, -69),
	},
	{
		"com.microsoft", "QLinearConv",
		[]*graph.Attr{{Name: "channels_last", Int: 1}},
		[]*Tensor{wholesOf(graph.Uint8, []int{1, 3, 3, 2}, 97, 147, 250, 100, 151, 112, 154, 114, 163, 140, 173, 244, 38, 143, 112, 91, 61, 13), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Int8, []int{2, 2, 2, 2}, -25, 83, -104, -25, 119, 115, -73, -127, 43, -125, -52, -1, 95, -105, 41, 8), Reals([]int{2}, 0.02, 0.08), wholesOf(graph.Int8, []int{2}, 0, 0), Reals([]int{}, 0.9), wholesOf(graph.Uint8, []int{}, 140), wholesOf(graph.Int32, []int{2}, 300, -500)},
		wholesOf(graph.Uint8, []int{1, 2, 2, 2}, 144, 92, 121, 134, 150, 129, 166, 84),
	},
	{
		"com.microsoft", "MatMulIntegerToFloat", nil,
		[]*Tensor{wholesOf(graph.Uint8, []int{2, 3}, 216, 123, 241, 155, 231, 245), wholesOf(graph.Int8, []int{3, 2}, 17, -57, -91, 16, -79, 64), Reals([]int{}, 0.0317), Reals([]int{2}, 0.09, 0.03), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Int8, []int{2}, 0, 0), Reals([]int{2}, 0.1, -0.9)},
		Reals([]int{2, 2}, -32.0248, 1.74378, -63.9242, 6.93719),
	},
	{
		"com.microsoft", "DynamicQuantizeMatMul", nil,
		[]*Tensor{Reals([]int{2, 3}, -0.6, -0.2, 0.7, 0.9, 0.3, 0.2), wholesOf(graph.Uint8, []int{3, 2}, 145, 15, 96, 251, 105, 54), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 120), Reals([]int{2}, -0.5, 0.4)},
		Reals([]int{2, 2}, -1.15619, 0.10202, -0.11009, -1.76828),
	},
	{
		"com.microsoft", "QGemm",
		[]*graph.Attr{{Name: "transB", Int: 1}, {Name: "alpha", Float: 0.5}},
		[]*Tensor{wholesOf(graph.Uint8, []int{2, 3}, 9, 248, 224, 145, 119, 194), Reals([]int{}, 0.0317), wholesOf(graph.Uint8, []int{}, 100), wholesOf(graph.Int8, []int{2, 3}, 12, -6, -46, -14, 64, -114), Reals([]int{2}, 0.01, 0.07), wholesOf(graph.Int8, []int{2}, 0, 0), wholesOf(graph.Int32, []int{2}, 300, -500), Reals([]int{}, 0.8), wholesOf(graph.Uint8, []int{}, 140)},
		wholesOf(graph.Uint8, []int{2, 2}, 139, 135, 139, 125),
	},
	{
		"com.microsoft", "QGemm",
		[]*graph.Attr{{Name: "transA", Int: 0}},
		[]*Tensor{wholesOf(graph.Int8, []int{2, 3}, -33, 77, -121, 104, -97, -22), Reals([]int{}, 0.0317), wholesOf(graph.Int8, []int{}, -10), wholesOf(graph.Int8, []int{3, 2}, 119, -101, 40, 58, -19, -108), Reals([]int{}, 0.0411), wholesOf(graph.Int8, []int{}, 0), wholesOf(graph.Int32, []int{2, 1}, 300, -500)},
		Reals([]int{2, 2}, 4.10665, 25.6105, 12.7864, -20.5384),
	},
	{
		"com.microsoft", "FusedMatMul",
		[]*graph.Attr{{Name: "transBatchA", Int: 1}, {Name: "transB", Int: 1}, {Name: "alpha", Float: 0.5}},
		[]*Tensor{Reals([]int{2, 2, 3}, 0, -0.1, 0.7, 0.3, -0.3, -0.8, 0.2, -0.4, 0.3, 0.7, -0.3, 0.8), Reals([]int{2, 2, 3}, 0, 0.1, 0.5, 0.5, 0.8, 0.9, -0.7, -0.2, 0.8, -0.4, -0.9, 0.1)},
		Reals([]int{2, 2, 2}, 0.17, 0.275, 0.055, 0.025, -0.395, 0.035, 0.105, 0.035),
	},
	{
		"com.microsoft", "Gelu", nil,
		[]*Tensor{Reals([]int{5}, 0.5, 0.5, 0.6, 0.3, -0.7)},
		Reals([]int{5}, 0.345731, 0.345731, 0.435448, 0.185373, -0.169375),
	},
	{
		"com.microsoft", "FastGelu", nil,
		[]*Tensor{Reals([]int{2, 3}, 0.7, -0.2, 0.7, 0.6, 0.9, -0.9), Reals([]int{3}, 0.7, 0.2, 0)},
		Reals([]int{2, 3}, 1.28671, 0, 0.53057, 1.17393, 0.950581, -0.165772),
	},
	{
		"com.microsoft", "QuickGelu",
		[]*graph.Attr{{Name: "alpha", Float: 1.5}},
		[]*Tensor{Reals([]int{5}, 0.6, 0.9, 0, -0.8, 0.4)},
		Reals([]int{5}, 0.42657, 0.714717, 0, -0.18518, 0.258263),
	},
	{
		"com.microsoft", "DynamicQuantizeLSTM",
		[]*graph.Attr{{Name: "hidden_size", Int: 2}, {Name: "direction", String: "bidirectional"}},
		[]*Tensor{Reals([]int{3, 2, 3}, -0.5, -0.5, -0.6, -0.6, 0.8, -0.3, -0.7, -0.6, -0.2, -0.3, -0.4, 0.9, 0.7, 0.1, 0.9, -0.3, -0.7, -0.4), wholesOf(graph.Int8, []int{2, 3, 8}, -106, 115, -72, -15, -77, 122, -88, 3, 115, 5, 102, 101, 68, 62, 19, 20, 84, -19, 114, 96, -33, -23, 54, 108, -104, -111, -65, -18, -87, 4, 10, 115, 62, -64, 73, 78, 46, 45, -49, 55, -94, 33, 107, 120, -52, -43, 30, -27), wholesOf(graph.Int8, []int{2, 2, 8}, 59, -77, -85, -116, -8, -74, -52, 106, 80, 87, 23, -100, 63, 26, 104, -6, -84, 24, -12, 40, -32, -50, -96, 118, 65, -9, -68, 32, -23, 34, -105, -81), Reals([]int{2, 16}, 0.4, -0.8, 0.3, -0.2, -0.9, 0.5, 0.4, 0.6, 0.8, 0.4, 0.6, -0.7, 0.8, 0.8, 0.4, 0.6, 0.5, 0.7, 0.7, 0, 0.6, 0.8, -0.4, -0.9, -0.6, -0.9, -0.1, -0.9, -0.5, -0.5, 0.4, -0.5), wholesOf(graph.Int32, []int{2}, 3, 2), Reals([]int{2, 2, 2}, 0.9, -0.6, 0.9, 0.1, -0.5, -0.9, -0.4, 0.2), Reals([]int{2, 2, 2}, -0.7, -0.6, -0.7, 0.3, -0.8, -0.9, -0.1, -0.4), Reals([]int{2, 6}, 0.1, 0.8, 0.7, 0.1, 0.3, 0.6, -0.1, 0.3, -0.5, 0.2, -0.5, -0.6), Reals([]int{2, 8}, 0.007, 0.006, 0.004, 0.001, 0.003, 0.008, 0.005, 0.009, 0.009, 0.008, 0.001, 0.001, 0.006, 0.004, 0.008, 0.003), wholesOf(graph.Int8, []int{2, 8}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), Reals([]int{2, 8}, 0.002, 0.002, 0.003, 0.006, 0.002, 0.008, 0.003, 0.003, 0.006, 0.008, 0.004, 0.008, 0.003, 0.002, 0.008, 0.007), wholesOf(graph.Int8, []int{2, 8}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		Reals([]int{3, 2, 2, 2}, 0.00678211, -0.0255961, 0.234352, 0.0873605, 0.0754961, -0.184812, -0.115708, -0.186227, 0.396087, 0.0349665, 0.581824, 0.173273, 0.0477932, -0.176929, 0.0779539, -0.170499, 0.523349, 0.139659, 0, 0, -0.170823, -0.139513, 0, 0),
	},
	{
		"com.microsoft", "DynamicQuantizeLSTM",
		[]*graph.Attr{{Name: "hidden_size", Int: 2}, {Name: "direction", String: "reverse"}, {Name: "input_forget", Int: 0}},
		[]*Tensor{Reals([]int{3, 2, 3}, 0.5, 0.7, 0, -0.6, 0.2, 0.1, -0.2, 0.3, -0.4, 0.2, 0.6, -0.8, -0.1, 0.3, -0.9, 0.3, 0.8, 0.6), wholesOf(graph.Uint8, []int{1, 3, 8}, 175, 205, 92, 83, 21, 184, 80, 222, 119, 228, 35, 41, 88, 6, 125, 166, 169, 54, 42, 144, 162, 241, 229, 97), wholesOf(graph.Uint8, []int{1, 2, 8}, 41, 64, 225, 116, 254, 168, 152, 25, 151, 97, 215, 34, 49, 169, 174, 212), Reals([]int{1, 16}, 0, -0.2, -0.4, -0.2, 0.3, 0.1, -0.4, -0.5, 0.4, -0.5, -0.6, -0.3, 0.7, -0.1, 0.2, -0.8), wholesOf(graph.Int32, []int{2}, 3, 2), Reals([]int{1, 2, 2}, -0.3, 0.5, 0.5, 0.2), Reals([]int{1, 2, 2}, 0.7, -0.4, -0.6, -0.8), Reals([]int{1, 6}, -0.6, 0.5, 0.8, -0.7, 0, -0.7), Reals([]int{1}, 0.008), wholesOf(graph.Uint8, []int{1}, 120), Reals([]int{1}, 0.002), wholesOf(graph.Uint8, []int{1}, 120)},
		Reals([]int{3, 1, 2, 2}, -0.0391142, -0.160855, -0.0908862, -0.230887, -0.0328954, -0.185656, -0.126367, -0.179922, 0.0551644, -0.147991, 0, 0),
	},
}

// wholesOf returns a tensor of integers or booleans.
func wholesOf(t graph.DType, shape []int, v ...int64) *Tensor {
	return &Tensor{Type: t, Shape: shape, I: v}
}
