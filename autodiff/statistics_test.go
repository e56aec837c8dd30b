package autodiff

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSharedStatistics: if an exporter merged the equal statistics of two
// normalizations, and one reads them through Identity, each is trained with its own. A
// normalization with computed statistics stays in inference mode. Both come with a
// warning.
func TestSharedStatistics(t *testing.T) {
	g := &graph.Graph{}
	e := newEmitter(g, []graph.Opset{{Version: 18}}, nil)
	x := e.newTensor("x", graph.TensorOf(graph.Float32, 2, 3, 4, 4), nil)
	g.Tensors[x].Input, g.Tensors[x].Declared = true, &graph.Declared{Type: g.Tensors[x].Type, Symbols: make([]string, 4)}
	g.Inputs = []ID{x}
	stored := func(name string, v ...float64) ID {
		t := e.reals(graph.Float32, []int64{int64(len(v))}, v)
		g.Tensors[t].Name, g.Tensors[t].Data.Name = name, name
		return t
	}
	scale, bias := stored("scale", 1, 2, 3), stored("bias", 4, 5, 6)
	mean, variance := stored("mean", 0, 0, 0.5), stored("var", 1, 1, 1.5)
	y := e.with("BatchNormalization", nil, x, scale, bias, mean, variance)
	y = e.with("BatchNormalization", nil, y, scale, bias, e.op("Identity", mean), e.op("Identity", variance))
	y = e.with("BatchNormalization", nil, y, scale, bias, e.op("Neg", mean), variance)
	y = e.reduce("ReduceMean", y, axes(0, 4), false)
	if e.err != nil {
		t.Fatal(e.err)
	}
	g.Tensors[y].Name, g.Tensors[y].Output = "y", true
	g.Outputs = []ID{y}
	g.Link()
	step, err := Train(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 18}}, Graph: g}, Options{Loss: "none:y"})
	if err != nil {
		t.Fatal(err)
	}
	training, states := 0, map[string]bool{}
	for _, n := range step.Model.Graph.Nodes {
		if a := n.Attr("training_mode"); n.Op == "BatchNormalization" && a != nil && a.Int == 1 {
			training++
			for _, t := range n.Inputs[3:5] {
				states[step.Model.Graph.Tensors[t].Name] = true
			}
		}
	}
	if training != 2 || len(states) != 4 {
		t.Errorf("%d nodes in training mode, with statistics %v: expected 2 nodes with 4", training, states)
	}
	for _, want := range []string{"belong to several nodes", "are computed: node"} {
		if !strings.Contains(strings.Join(step.Warnings, "\n"), want) {
			t.Errorf("no warning that they %s: %q", want, step.Warnings)
		}
	}
}
