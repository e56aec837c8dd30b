package mutate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm"
)

// large lists operators at sizes at which kernels take their fast paths (the
// operator tests are too small for that), and operators without an operator test.
// A "|" appends a second operator, which may be fused with the first.
var large = []struct {
	op      string
	attrs   []*graph.Attr
	shapes  [][]int         // of float32 inputs
	outputs int             // 0 means 1
	fill    map[int]float32 // inputs whose elements are all one number
}{
	{op: "Conv", attrs: attrs("pads", 1, 1, 1, 1), shapes: [][]int{{2, 5, 14, 19}, {7, 5, 3, 3}, {7}}},
	{op: "Conv|Relu", attrs: attrs("pads", 1, 1, 1, 1), shapes: [][]int{{1, 12, 14, 14}, {70, 12, 3, 3}, {70}}},
	{op: "Conv|Clip", attrs: append(attrs("group", 9), attrs("pads", 1, 1, 1, 1)...), shapes: [][]int{{2, 9, 13, 21}, {9, 1, 3, 3}, {9}}},
	{op: "Conv|Sigmoid", attrs: append(attrs("group", 2), attrs("strides", 2, 2)...), shapes: [][]int{{2, 6, 15, 15}, {8, 3, 5, 3}}},
	{op: "Conv", shapes: [][]int{{1, 9, 10, 21}, {17, 9, 1, 1}}},
	{op: "Conv", attrs: attrs("dilations", 2), shapes: [][]int{{2, 9, 70}, {17, 9, 3}}},
	{op: "ConvTranspose", attrs: attrs("strides", 2, 2), shapes: [][]int{{1, 9, 10, 11}, {9, 12, 3, 3}, {12}}},
	{op: "DeformConv", shapes: [][]int{{1, 4, 9, 11}, {6, 4, 3, 3}, {1, 18, 7, 9}, {6}, {1, 9, 7, 9}}},
	{op: "MatMul", shapes: [][]int{{3, 33, 70}, {3, 70, 19}}},
	{op: "Einsum", attrs: []*graph.Attr{named("equation", "bhqd,bhkd->bhqk")}, shapes: [][]int{{2, 3, 17, 20}, {2, 3, 19, 20}}},
	{op: "Einsum", attrs: []*graph.Attr{named("equation", "abc,cd,dde->eab")}, shapes: [][]int{{4, 5, 6}, {6, 7}, {7, 7, 8}}},
	{op: "Einsum", attrs: []*graph.Attr{named("equation", "...ij,jj->i...")}, shapes: [][]int{{2, 3, 17, 20}, {20, 20}}},
	{op: "MatMul|Relu", shapes: [][]int{{2, 5, 40}, {40, 130}}},
	{op: "Gemm|Relu", attrs: attrs("transB", 1), shapes: [][]int{{30, 50}, {41, 50}, {41}}},
	{op: "Gemm", attrs: attrs("transA", 1), shapes: [][]int{{50, 30}, {50, 41}, {30, 1}}},
	{op: "MaxPool", attrs: append(attrs("kernel_shape", 3, 3), attrs("strides", 2, 2)...), shapes: [][]int{{2, 3, 15, 22}}, outputs: 2},
	{op: "AveragePool", attrs: append(attrs("kernel_shape", 3, 3), attrs("pads", 1, 1, 1, 1)...), shapes: [][]int{{2, 3, 15, 22}}},
	{op: "LpPool", attrs: attrs("kernel_shape", 3, 3), shapes: [][]int{{2, 3, 15, 22}}},
	{op: "GlobalAveragePool", shapes: [][]int{{2, 5, 7, 19}}},
	{op: "BatchNormalization", shapes: [][]int{{2, 5, 7, 9}, {5}, {5}, {5}, {5}}},
	{op: "InstanceNormalization", shapes: [][]int{{2, 5, 7, 9}, {5}, {5}}},
	{op: "GroupNormalization", attrs: attrs("num_groups", 2), shapes: [][]int{{2, 6, 7, 9}, {6}, {6}}},
	{op: "LayerNormalization", shapes: [][]int{{3, 40, 33}, {33}, {33}}, outputs: 3},
	{op: "Softmax", attrs: attrs("axis", 1), shapes: [][]int{{3, 40, 35}}},
	{op: "LogSoftmax", shapes: [][]int{{9, 77}}},
	{op: "ReduceSum", shapes: [][]int{{30, 40, 5}}},
	{op: "ReduceL2", shapes: [][]int{{30, 40, 5}}},
	{op: "ArgMax", attrs: attrs("axis", 1), shapes: [][]int{{5, 70, 9}}},
	{op: "CumSum", shapes: [][]int{{5, 70}, {}}},
	{op: "TopK", shapes: [][]int{{5, 70}, {1}}, outputs: 2},
	{op: "Transpose", attrs: attrs("perm", 0, 2, 1, 3), shapes: [][]int{{2, 30, 9, 17}}},
	{op: "Transpose", attrs: attrs("perm", 1, 0), shapes: [][]int{{70, 150}}},
	{op: "Concat", attrs: attrs("axis", 1), shapes: [][]int{{5, 30, 9}, {5, 4, 9}, {5, 1, 9}}},
	{op: "Add|Relu", shapes: [][]int{{5, 7, 30}, {7, 1}}},
	{op: "Mul", shapes: [][]int{{7, 1}, {5, 7, 30}}},
	{op: "Pow", shapes: [][]int{{300}, {}}},
	{op: "PRelu", shapes: [][]int{{5, 7, 30}, {7, 1}}},
	{op: "Where", shapes: [][]int{{7, 30}, {5, 7, 30}, {1}}},
	{op: "Gelu", shapes: [][]int{{333}}},
	{op: "LSTM", attrs: attrs("hidden_size", 9), shapes: [][]int{{7, 3, 12}, {1, 36, 12}, {1, 36, 9}, {1, 72}}, outputs: 3},
	{op: "GRU", attrs: attrs("hidden_size", 9), shapes: [][]int{{7, 3, 12}, {1, 27, 12}, {1, 27, 9}, {1, 54}}, outputs: 2},
	{op: "Attention", shapes: [][]int{{2, 3, 50, 20}, {2, 3, 45, 20}, {2, 3, 45, 24}}},
	{op: "GridSample", shapes: [][]int{{2, 3, 9, 11}, {2, 7, 5, 2}}},
	{op: "com.microsoft.FusedConv", attrs: append(attrs("pads", 1, 1, 1, 1), named("activation", "Sigmoid")), shapes: [][]int{{1, 12, 14, 14}, {20, 12, 3, 3}, {20}, {1, 20, 14, 14}}},
	{op: "com.microsoft.FusedConv", attrs: append(attrs("group", 9), named("activation", "Relu")), shapes: [][]int{{2, 9, 13, 21}, {9, 1, 3, 3}, {9}, {2, 9, 11, 19}}},
	{op: "com.microsoft.FusedGemm", attrs: append(attrs("transB", 1), named("activation", "Relu")), shapes: [][]int{{30, 50}, {41, 50}, {30, 41}}},
	{op: "com.microsoft.FusedMatMul", attrs: append(attrs("transA", 1), attrs("transBatchA", 1)...), shapes: [][]int{{19, 5, 33}, {5, 19, 8}}},
	{op: "com.microsoft.QLinearAdd", shapes: [][]int{{5, 7, 30}, {}, {}, {7, 1}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearSigmoid", shapes: [][]int{{333}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearSoftmax", attrs: append(attrs("axis", 1), attrs("opset", 13)...), shapes: [][]int{{3, 40, 5}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearWhere", shapes: [][]int{{7, 30}, {5, 7, 30}, {}, {}, {1}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearConcat", attrs: attrs("axis", 1), shapes: [][]int{{}, {}, {5, 30, 9}, {}, {}, {5, 4, 9}, {}, {}}},
	{op: "com.microsoft.QLinearAveragePool", attrs: attrs("kernel_shape", 3, 3), shapes: [][]int{{2, 3, 15, 22}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearGlobalAveragePool", attrs: attrs("channels_last", 1), shapes: [][]int{{2, 7, 9, 5}, {}, {}, {}, {}}},
	{op: "com.microsoft.QLinearConv", attrs: attrs("channels_last", 1), shapes: [][]int{{1, 9, 11, 5}, {}, {}, {6, 5, 3, 3}, {6}, {6}, {}, {}}},
	{op: "QLinearConv", attrs: attrs("group", 6), shapes: [][]int{{2, 6, 9, 11}, {}, {}, {6, 1, 3, 3}, {6}, {6}, {}, {}}},
	{op: "com.microsoft.QLinearConv", attrs: append(attrs("group", 6), attrs("channels_last", 1)...), shapes: [][]int{{2, 9, 11, 6}, {}, {}, {6, 1, 3, 3}, {}, {}, {}, {}}},
	{op: "com.microsoft.QGemm", attrs: attrs("transB", 1), shapes: [][]int{{30, 50}, {}, {}, {41, 50}, {41}, {41}}},
	{op: "com.microsoft.MatMulIntegerToFloat", shapes: [][]int{{3, 33, 70}, {70, 19}, {}, {19}, {}, {19}, {19}}},
	{op: "com.microsoft.DynamicQuantizeMatMul", shapes: [][]int{{33, 70}, {70, 19}, {}, {}, {19}}},
	{op: "com.microsoft.DynamicQuantizeLSTM", attrs: attrs("hidden_size", 9), shapes: [][]int{{7, 3, 12}, {1, 12, 36}, {1, 9, 36}, {1, 72}, {3}, {1, 3, 9}, {1, 3, 9}, {1, 27}, {1, 36}, {1, 36}, {1}, {1}}, outputs: 3},
	{op: "com.microsoft.nchwc.Conv", attrs: append(attrs("pads", 1, 1, 1, 1), named("activation", "Relu")), shapes: [][]int{{1, 32, 9, 11}, {48, 32, 3, 3}, {48}, {1, 48, 9, 11}}},
	{op: "com.microsoft.nchwc.Conv", attrs: attrs("group", 32), shapes: [][]int{{1, 32, 9, 11}, {32, 1, 3, 3}, {32}}},
	{op: "com.microsoft.nchwc.AveragePool", attrs: attrs("kernel_shape", 3, 3), shapes: [][]int{{1, 32, 9, 11}}},
	{op: "com.microsoft.nchwc.ReorderInput", attrs: attrs("channels_last", 1), shapes: [][]int{{2, 9, 11, 32}}},
	{op: "com.microsoft.nchwc.ReorderOutput", attrs: attrs("channels", 29), shapes: [][]int{{2, 32, 9, 11}}},
	{op: "com.microsoft.nchwc.Upsample", attrs: attrs("scales", 1, 1, 2, 3), shapes: [][]int{{1, 32, 5, 7}}},
	{op: "DepthToSpace", attrs: attrs("blocksize", 2), shapes: [][]int{{2, 24, 7, 9}}},
	{op: "Unique", attrs: append(attrs("axis", 1), attrs("sorted", 0)...), shapes: [][]int{{3, 40, 5}}, outputs: 4},
	{op: "NonMaxSuppression", shapes: [][]int{{2, 40, 4}, {2, 3, 40}, {1}, {1}, {1}}, fill: map[int]float32{2: 9, 3: 0.3}},
	{op: "STFT", shapes: [][]int{{2, 90, 1}, {}, {30}}, fill: map[int]float32{1: 7}},
	{op: "ai.onnx.ml.TreeEnsembleRegressor", attrs: append(attrs("n_targets", 3), trees("target")...), shapes: [][]int{{70, 4}}},
	{op: "ai.onnx.ml.TreeEnsembleClassifier", attrs: append(attrs("classlabels_int64s", 5, 7, 9), trees("class")...), shapes: [][]int{{70, 4}}, outputs: 2},
	{op: "ai.onnx.ml.LinearRegressor", attrs: append(attrs("targets", 2), floats("coefficients", 8), floats("intercepts", 2)), shapes: [][]int{{70, 4}}},
	{op: "ai.onnx.ml.LinearClassifier", attrs: append(attrs("classlabels_ints", 5, 7, 9), floats("coefficients", 12), floats("intercepts", 3)), shapes: [][]int{{70, 4}}, outputs: 2},
	{op: "ai.onnx.ml.Scaler", attrs: []*graph.Attr{floats("offset", 4), floats("scale", 4)}, shapes: [][]int{{70, 4}}},
	{op: "ai.onnx.ml.Normalizer", attrs: []*graph.Attr{named("norm", "L2")}, shapes: [][]int{{70, 4}}},
	{op: "ai.onnx.ml.OneHotEncoder", attrs: attrs("cats_int64s", -1, 0, 1), shapes: [][]int{{70, 4}}},
	{op: "ai.onnx.ml.FeatureVectorizer", attrs: attrs("inputdimensions", 4, 7, 6), shapes: [][]int{{70, 4}, {70, 7}, {70, 2, 2}}},
	{op: "ai.onnx.ml.ArrayFeatureExtractor", shapes: [][]int{{70, 40}, {5}}},
	{op: "com.microsoft.FastGelu", shapes: [][]int{{7, 41}, {41}}},
	{op: "com.microsoft.QuickGelu", shapes: [][]int{{333}}},
	{op: "com.microsoft.BiasGelu", shapes: [][]int{{7, 41}, {41}}},
	{op: "com.microsoft.SkipLayerNormalization", shapes: [][]int{{3, 7, 41}, {3, 7, 41}, {41}, {41}, {41}}, outputs: 4},
	{op: "com.microsoft.Attention", attrs: attrs("num_heads", 2), shapes: [][]int{{2, 7, 24}, {24, 96}, {96}}},
}

// attrs returns one attribute: an integer, or a list of integers.
func attrs(name string, v ...int64) []*graph.Attr {
	if len(v) == 1 && name != "dilations" {
		return []*graph.Attr{{Name: name, Type: graph.AttrInt, Int: v[0]}}
	}
	return []*graph.Attr{{Name: name, Type: graph.AttrInts, Ints: v}}
}

// named returns an attribute that is a string.
func named(name, v string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
}

// floats returns an attribute of n numbers.
func floats(name string, n int) *graph.Attr {
	a := &graph.Attr{Name: name, Type: graph.AttrFloats}
	for i := range n {
		a.Floats = append(a.Floats, float32(math.Sin(float64(i+len(name)))))
	}
	return a
}

// trees returns the attributes of two trees of seven nodes: four leaves, whose weights are
// named of_*.
func trees(of string) []*graph.Attr {
	list := map[string][]int64{}
	add := func(name string, v int) { list[name] = append(list[name], int64(v)) }
	modes := &graph.Attr{Name: "nodes_modes", Type: graph.AttrStrings}
	for i := range 14 {
		tree, node := i/7, i%7
		yes, no, mode := 2*node+1, 2*node+2, "BRANCH_LEQ"
		if node > 2 {
			yes, no, mode = 0, 0, "LEAF"
			add(of+"_treeids", tree)
			add(of+"_nodeids", node)
			add(of+"_ids", node%3)
		}
		add("nodes_treeids", tree)
		add("nodes_nodeids", node)
		add("nodes_featureids", i%4)
		add("nodes_truenodeids", yes)
		add("nodes_falsenodeids", no)
		modes.Strings = append(modes.Strings, mode)
	}
	all := []*graph.Attr{modes, floats("nodes_values", 14), floats(of+"_weights", 8)}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		all = append(all, attrs(name, list[name]...)...)
	}
	return all
}

// integerInputs lists the inputs in large whose type is not float32. Most operators permit
// several types: which of them a case has is its own.
var integerInputs = map[string]map[int]graph.DType{
	"QLinearAdd":               {0: graph.Uint8, 2: graph.Uint8, 3: graph.Uint8, 5: graph.Uint8, 7: graph.Uint8},
	"QLinearSigmoid":           {0: graph.Int8, 2: graph.Int8, 4: graph.Int8},
	"QLinearSoftmax":           {0: graph.Uint8, 2: graph.Uint8, 4: graph.Uint8},
	"QLinearWhere":             {0: graph.Bool, 1: graph.Uint8, 3: graph.Uint8, 4: graph.Uint8, 6: graph.Uint8, 8: graph.Uint8},
	"QLinearConcat":            {1: graph.Int8, 2: graph.Int8, 4: graph.Int8, 5: graph.Int8, 7: graph.Int8},
	"QLinearAveragePool":       {0: graph.Uint8, 2: graph.Uint8, 4: graph.Uint8},
	"QLinearGlobalAveragePool": {0: graph.Uint8, 2: graph.Uint8, 4: graph.Uint8},
	"QLinearConv":              {0: graph.Uint8, 2: graph.Uint8, 3: graph.Int8, 5: graph.Int8, 7: graph.Uint8},
	"DynamicQuantizeLSTM":      {1: graph.Int8, 2: graph.Int8, 4: graph.Int32, 9: graph.Int8, 11: graph.Int8},
	"QGemm":                    {0: graph.Uint8, 2: graph.Uint8, 3: graph.Int8, 5: graph.Int8},
	"MatMulIntegerToFloat":     {0: graph.Uint8, 1: graph.Int8, 4: graph.Uint8, 5: graph.Int8},
	"DynamicQuantizeMatMul":    {1: graph.Int8, 3: graph.Int8},

	"NonMaxSuppression": {2: graph.Int64}, "STFT": {1: graph.Int64}, "ArrayFeatureExtractor": {1: graph.Int64},
	"CumSum": {1: graph.Int64}, "TopK": {1: graph.Int64}, "Where": {0: graph.Bool},
}

// largeSeeds returns a seed for each entry of large, and those of quantized convolutions.
func largeSeeds() ([]*Seed, error) {
	var list []*Seed
	for i := range large {
		s, err := largeSeed(i)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	for _, of := range quantizedConvolutions {
		s, err := quantizedSeed(of.name, of.group, of.shared)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func largeSeed(i int) (*Seed, error) {
	of := &large[i]
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 23}, {Domain: "com.microsoft", Version: 1}, {Domain: attr.Nchwc, Version: 1}, {Domain: "ai.onnx.ml", Version: 3}}, Graph: &graph.Graph{Name: "g"}}
	g := m.Graph
	var inputs []vm.Value
	domain, op := "", of.op
	for _, own := range []string{attr.Nchwc, "com.microsoft", "ai.onnx.ml"} {
		if rest, ok := strings.CutPrefix(of.op, own+"."); ok && domain == "" {
			domain, op = own, rest
		}
	}
	op, then, joined := strings.Cut(op, "|")
	n := &graph.Node{Name: op, Op: op, Domain: domain, Attrs: of.attrs}
	for k, shape := range of.shapes {
		t := g.NewTensor(fmt.Sprintf("x%d", k))
		v := noise(shape, k)
		if x, ok := of.fill[k]; ok {
			v = vm.Float32s(slices.Repeat([]float32{x}, elements(shape)), shape...)
		}
		if d, ok := integerInputs[op][k]; ok {
			v = converted(v, d)
		}
		dims := make([]graph.Dim, len(shape))
		for a, length := range shape {
			dims[a] = graph.Dim(length)
		}
		g.Tensors[t].Declared = &graph.Declared{Type: graph.TensorOf(v.Type, dims...), Symbols: make([]string, len(dims))}
		g.Inputs = append(g.Inputs, t)
		n.Inputs = append(n.Inputs, t)
		inputs = append(inputs, v)
	}
	for k := range max(of.outputs, 1) {
		n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("y%d", k)))
	}
	g.Nodes = append(g.Nodes, n)
	outputs := n.Outputs
	if joined {
		last := g.NewTensor("z")
		g.Nodes = append(g.Nodes, &graph.Node{Name: then, Op: then, Inputs: []graph.TensorID{n.Outputs[0]}, Outputs: []graph.TensorID{last}})
		outputs = []graph.TensorID{last}
	}
	g.Link()
	if _, err := ops.Infer(m, ops.Options{}); err != nil {
		return nil, err
	}
	for _, t := range outputs {
		g.Tensors[t].Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: g.Tensors[t].Type.Elem}}
		g.Outputs = append(g.Outputs, t)
	}
	g.Link()
	return NewSeed(fmt.Sprintf("large_%02d_%s", i, op), m, inputs)
}

// noise returns numbers between -1 and 1 that depend on salt.
func noise(shape []int, salt int) vm.Value {
	list := make([]float32, elements(shape))
	for i := range list {
		list[i] = float32(math.Sin(float64(i*37+salt*11) + 1))
	}
	return vm.Float32s(list, shape...)
}
