package passes_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/passes"
)

// TestBrokenGraphs breaks hand-made graphs in every way it knows and expects an
// error about the graph, never a panic.
func TestBrokenGraphs(t *testing.T) {
	refused := 0
	rapid.Check(t, func(r *rapid.T) {
		m := drawnModel(r)
		for range rapid.IntRange(1, 3).Draw(r, "breaks") {
			breakGraph(r, m)
		}
		if rapid.Bool().Draw(r, "link") && graphIsLinkable(m.Graph) {
			m.Graph.Link()
		}
		_, err := passes.Optimize(t.Context(), m, passes.Options{})
		var panicked *bug.Error
		var e *graph.Error
		switch {
		case errors.As(err, &panicked):
			r.Fatalf("%v\n%s", err, panicked.Stack)
		case err != nil && !errors.As(err, &e):
			r.Fatalf("got %v, expected an error of the graph", err)
		case err != nil:
			refused++
		}
	})
	if refused == 0 {
		t.Error("no broken graph was refused: nothing is tested")
	}
}

// drawnModel draws a graph of a few nodes with one or two inputs.
func drawnModel(r *rapid.T) *graph.Model {
	b := graph.NewBuilder("drawn", 17)
	tensors := []graph.TensorID{
		b.Input("x", graph.TensorOf(graph.Float32, 2, 3)),
		b.Floats("w", []int64{2, 3}, make([]float32, 6)),
	}
	pick := func() graph.TensorID { return rapid.SampledFrom(tensors).Draw(r, "input") }
	for range rapid.IntRange(1, 6).Draw(r, "nodes") {
		if rapid.Bool().Draw(r, "binary") {
			tensors = append(tensors, b.Node("Add", "", pick(), pick()))
		} else {
			tensors = append(tensors, b.Node("Relu", "", pick()))
		}
	}
	b.Output(tensors[len(tensors)-1], pick())
	m, err := b.Model()
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// breakGraph makes one change to a model that is probably a fault.
func breakGraph(r *rapid.T, m *graph.Model) {
	g := m.Graph
	id := graph.TensorID(rapid.IntRange(-3, len(g.Tensors)+1).Draw(r, "tensor"))
	node := func() *graph.Node {
		if n := rapid.SampledFrom(g.Nodes).Draw(r, "node"); n != nil {
			return n
		}
		return &graph.Node{}
	}
	tensor := func() *graph.Tensor {
		if t := rapid.SampledFrom(g.Tensors).Draw(r, "of"); t != nil {
			return t
		}
		return &graph.Tensor{}
	}
	index := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "index") }
	number := func() int64 { return rapid.Int64().Draw(r, "number") }
	switch rapid.IntRange(0, 19).Draw(r, "break") {
	case 0:
		n := node()
		n.Inputs = append(n.Inputs, id)
	case 1:
		if n := node(); len(n.Inputs) > 0 {
			n.Inputs[index(len(n.Inputs))] = id
		}
	case 2:
		if n := node(); len(n.Outputs) > 0 {
			n.Outputs[index(len(n.Outputs))] = id
		}
	case 3:
		node().Captures = []graph.TensorID{id}
	case 4:
		g.Inputs = append(g.Inputs, id)
	case 5:
		g.Outputs = append(g.Outputs, id)
	case 6:
		g.Nodes[index(len(g.Nodes))] = nil
	case 7:
		g.Tensors[index(len(g.Tensors))] = nil
	case 8:
		g.Nodes[index(len(g.Nodes))] = node()
	case 9:
		g.Tensors[index(len(g.Tensors))] = tensor()
	case 10:
		tensor().Name = tensor().Name
	case 11:
		tensor().Maker = graph.NodeID(id)
	case 12:
		tensor().Readers = []graph.NodeID{graph.NodeID(id)}
	case 13:
		tensor().Capture = true
	case 14:
		tensor().Declared = &graph.Declared{Type: graph.Type{
			Kind: graph.Kind(number()), Elem: graph.DType(number()), Ranked: true, Shape: []graph.Dim{graph.Dim(number())},
		}}
	case 15:
		tensor().Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, graph.Dim(number()), graph.Dim(number())), Symbols: []string{"", "n"}}
	case 16:
		tensor().Data = &graph.Data{Type: graph.DType(number()), Dims: []int64{number(), number()}, Bytes: number()}
	case 17:
		tensor().Data = &graph.Data{Type: graph.Float32, Sparse: &graph.Sparse{}}
	case 18:
		g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: id})
	default:
		node().Attrs = []*graph.Attr{nil, {Name: "body", Type: graph.AttrGraph, Graph: g}}
	}
}

// graphIsLinkable reports whether Link can run: it does not check indices.
func graphIsLinkable(g *graph.Graph) bool {
	has := func(list []graph.TensorID, least graph.TensorID) bool {
		for _, t := range list {
			if t < least || int(t) >= len(g.Tensors) {
				return false
			}
		}
		return true
	}
	for _, t := range g.Tensors {
		if t == nil {
			return false
		}
	}
	for _, n := range g.Nodes {
		if n == nil || !has(n.Inputs, -3) || !has(n.Outputs, -3) || !has(n.Captures, 0) {
			return false
		}
	}
	return has(g.Inputs, 0) && has(g.Outputs, 0)
}
