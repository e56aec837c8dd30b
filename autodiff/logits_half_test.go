package autodiff

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// The loss of each label is a row where scores are cast from 16 bits, wherever their classes are.
func TestLossOfCastScores(t *testing.T) {
	for axis := range 4 {
		b := graph.NewBuilder("scores", 20)
		x := b.Input("x", graph.TensorOf(graph.Float32, 2, 3, 4, 5))
		y := b.Node("Mul", "scaled", x, b.Floats("w", []int64{5}, make([]float32, 5)))
		for name, to := range []graph.DType{graph.BFloat16, graph.Float32} {
			y = b.Add(&graph.Node{Name: []string{"half", "wide"}[name], Op: "Cast", Inputs: []graph.TensorID{y}, Attrs: []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(to)}}}, []string{"h", "y"}[name])[0]
		}
		b.Output(y)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		step, err := Train(m, Options{ClassAxis: &axis})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(step.Model.Graph.Nodes, func(n *graph.Node) bool {
			a := n.Attr("reduction")
			return a != nil && a.String == "none"
		}) {
			t.Errorf("class axis %d: the loss is not one of rows", axis)
		}
	}
}
