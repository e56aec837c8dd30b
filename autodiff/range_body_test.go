package autodiff

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestRangeBodiesDeclare: in a step for a range of batches, inputs and outputs of bodies
// declare no length that differs between the batches. ONNX Runtime believes what is declared.
func TestRangeBodiesDeclare(t *testing.T) {
	b := graph.NewBuilder("branches", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 4), "batch")
	cond := b.Input("cond", graph.TensorOf(graph.Bool))
	h := b.Node("MatMul", "h", x, b.Floats("w", []int64{4, 3}, make([]float32, 12)))
	branch := func(op string) *graph.Graph {
		g := &graph.Graph{Name: op}
		in := g.NewTensor("h")
		g.Tensors[in].Capture = true
		g.Captures = []graph.Capture{{Inner: in, Outer: h}}
		out := g.NewTensor(op)
		g.Nodes = []*graph.Node{{Op: op, Name: op, Inputs: []graph.TensorID{in}, Outputs: []graph.TensorID{out}}}
		g.Outputs = []graph.TensorID{out}
		g.Link()
		return g
	}
	n := &graph.Node{Op: "If", Name: "if", Inputs: []graph.TensorID{cond}, Attrs: []*graph.Attr{
		{Name: "then_branch", Type: graph.AttrGraph, Graph: branch("Tanh")}, {Name: "else_branch", Type: graph.AttrGraph, Graph: branch("Sigmoid")},
	}}
	b.Output(b.Add(n, "y")...)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	step, err := TrainRange(t.Context(), m, Options{Loss: "mse"}, map[string]string{"batch": "2..4"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, n := range nestedGraphs(step.Model.Graph)[1:] {
		for _, list := range [][]ID{n.g.Inputs, n.g.Outputs} {
			for _, id := range list {
				x := n.g.Tensors[id]
				if x.Declared == nil || len(x.Declared.Type.Shape) == 0 {
					continue
				}
				if declared++; x.Declared.Type.Shape[0] >= 0 {
					t.Errorf("%s: %q declares %v: expected no length of the batch", n.g.Name, x.Name, x.Declared.Type)
				}
			}
		}
	}
	if declared == 0 {
		t.Error("nothing is declared: nothing is tested")
	}
}
