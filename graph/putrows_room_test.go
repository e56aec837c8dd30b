package graph_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// room returns a graph in which PutRows writes rows into a tensor of 6 rows, and the node
// that makes it; on the axis and from the rows that are given.
func room(axis int64, at ...int64) (*graph.Graph, *graph.Node) {
	g := &graph.Graph{}
	typed := func(name string, rows, columns int) graph.TensorID {
		t := g.NewTensor(name)
		g.Tensors[t].Type = graph.TensorOf(graph.Float32, graph.Dim(rows), graph.Dim(columns))
		return t
	}
	base := typed("base", 6, 2)
	first := &graph.Node{Op: "ConstantOfShape", Outputs: []graph.TensorID{base}}
	g.Nodes = append(g.Nodes, first)
	for _, row := range at {
		part, out := typed("part", 2, 2), typed("out", 6, 2)
		where := g.NewTensor("at")
		g.Tensors[where].Data = &graph.Data{Type: graph.Int64, Dims: []int64{1}, Ints: []int64{row}, Bytes: 8}
		n := &graph.Node{
			Domain: graph.SwapDomain, Op: graph.PutRows, Inputs: []graph.TensorID{base, part, where, where}, Outputs: []graph.TensorID{out},
			Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: axis}},
		}
		n.Semantics.Known = true
		g.Nodes = append(g.Nodes, n)
		base = out
	}
	g.Outputs = []graph.TensorID{base}
	g.Link()
	return g, first
}

func TestMakesRoom(t *testing.T) {
	for _, c := range []struct {
		name string
		axis int64
		at   []int64
		want bool
	}{
		{"all rows", 0, []int64{0, 2, 4}, true},
		{"a row is missing", 0, []int64{0, 2}, false},
		{"rows are written twice", 0, []int64{0, 0, 2, 4}, false},
		{"in another order", 0, []int64{2, 0, 4}, false},
		{"all columns at once, but not all rows", 1, []int64{0}, true},
		{"an axis that is not there", 2, []int64{0, 2, 4}, false},
		{"nothing is written", 0, nil, false},
	} {
		g, n := room(c.axis, c.at...)
		if got := g.MakesRoom(n); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	g, n := room(0, 0, 2, 4)
	g.Outputs = append(slices.Clone(g.Outputs), n.Outputs[0])
	g.Link()
	if g.MakesRoom(n) {
		t.Error("an output is not only room")
	}
}
