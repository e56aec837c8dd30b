package graph_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestReverseDepthFirst: the last leaf first, and of a node's makers the last one; what a
// second leaf needs has then run.
func TestReverseDepthFirst(t *testing.T) {
	b := graph.NewBuilder("g", 21)
	x := b.Input("x", graph.TensorOf(graph.Float32, 4))
	a := b.Node("Relu", "a", x)
	c := b.Node("Abs", "c", x)
	d := b.Node("Neg", "d", a)
	e := b.Node("Add", "e", d, c)
	f := b.Node("Add", "f", a, c)
	b.Output(e)
	b.Output(f)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	names := func() (list []string) {
		for _, n := range m.Graph.Nodes {
			list = append(list, m.Graph.Tensors[n.Outputs[0]].Name)
		}
		return list
	}
	if got, want := names(), []string{"a", "c", "d", "e", "f"}; !slices.Equal(got, want) {
		t.Fatalf("listed: expected %v, found %v", want, got)
	}
	m.Graph.ReorderReverseDepthFirst()
	if got, want := names(), []string{"c", "a", "f", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("run: expected %v, found %v", want, got)
	}
}
