package randmodel

import (
	"maps"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestDraw: equal seeds make equal networks, and a thousand have every operator and form
// that the blocks know.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	var note func(g *graph.Graph, depth int)
	note = func(g *graph.Graph, depth int) {
		for _, n := range g.Nodes {
			seen[n.OpName()] = true
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					if depth > 0 {
						seen["a body in a body"] = true
					}
					note(b, depth+1)
				}
			}
		}
	}
	for seed := range uint64(1000) {
		n := Draw(seed)
		if seed < 50 {
			again := Draw(seed)
			if a, b := names(n.Model.Graph), names(again.Model.Graph); !slices.Equal(a, b) || !maps.Equal(n.Dims, again.Dims) {
				t.Fatalf("seed %d: two networks:\n%v\n%v", seed, a, b)
			}
		}
		note(n.Model.Graph, 0)
		for _, id := range n.Model.Graph.Outputs {
			if n.Model.Graph.Tensors[id].Input {
				seen["an output that is an input"] = true
			}
		}
		for _, id := range n.Model.Graph.Inputs {
			if len(n.Model.Graph.Tensors[id].Readers) == 0 {
				seen["an input that nobody reads"] = true
			}
		}
		if len(n.Dims) > 0 {
			seen["a symbolic dimension"] = true
		}
		if len(n.Model.Graph.Outputs) == 0 {
			t.Errorf("seed %d: no output", seed)
		}
	}
	for _, what := range []string{
		"a body in a body", "an output that is an input", "an input that nobody reads", "a symbolic dimension",
		"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "Resize", "Upsample", "DepthToSpace", "SpaceToDepth",
		"BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "LRN", "MeanVarianceNormalization",
		"Concat", "Split", "Slice", "Transpose", "Reshape", "Flatten", "Pad", "Tile", "Expand", "Gather", "Squeeze", "Unsqueeze", "Shape", "Where", "Cast",
		"MatMul", "Gemm", "Einsum", "Softmax", "LogSoftmax", "Sum", "Max", "Clip", "PRelu", "Erf", "CumSum", "TopK", "RNN", "GRU", "LSTM", "If", "Loop", "Scan",
		"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger", "DynamicQuantizeLinear",
		"Attention, com.microsoft", "MultiHeadAttention, com.microsoft", "BiasGelu, com.microsoft", "SkipLayerNormalization, com.microsoft",
		"FusedConv, com.microsoft", "FusedMatMul, com.microsoft", "QLinearAdd, com.microsoft",
	} {
		if !seen[what] {
			t.Errorf("no network has %s", what)
		}
	}
}

// names lists the nodes of a graph, with the tensors that they read and make.
func names(g *graph.Graph) []string {
	var list []string
	for _, n := range g.Nodes {
		list = append(list, n.Name, n.Op)
		for _, ids := range [][]graph.TensorID{n.Inputs, n.Outputs, n.Captures} {
			for _, id := range ids {
				if t := g.Tensor(id); t != nil {
					list = append(list, t.Name)
				}
			}
		}
	}
	return list
}
