package graph_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// small builds a model with an initializer, a node with several outputs, a left-out
// input and names that are requested twice.
func small(t *testing.T) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("small", 18)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 4), "batch")
	w := b.Floats("w", []int64{4, 2}, make([]float32, 8))
	y := b.Node("MatMul", "", x, w)
	y = b.Node("Relu", "y", y)
	y = b.Node("Relu", "y", y)
	parts := b.Add(&graph.Node{
		Name: "split", Op: "Split", Inputs: []graph.TensorID{y, graph.None},
		Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}, {Name: "num_outputs", Type: graph.AttrInt, Int: 2}},
	}, "left", "right")
	b.Output(parts...)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBuilder: a built graph can be written, and reading the file gives the same graph.
func TestBuilder(t *testing.T) {
	const want = `graph small
in x float32[batch,4]
init w float32[4,2] = 0
matmul = MatMul(x, w)
y = Relu(matmul)
y_2 = Relu(y)
left, right = Split(y_2, _) axis=1 num_outputs=2
out left
out right
`
	m := small(t)
	if got := printGraph(m.Graph); got != want {
		t.Errorf("built %s\nwant  %s", got, want)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	read, err := onnx.Parse("small.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := graph.Check(read); err != nil {
		t.Error(err)
	}
	if got := printGraph(read.Graph); got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	d := read.Graph.Tensors[read.Graph.Inputs[0]].Declared
	if d == nil || d.Symbols[0] != "batch" || d.Symbols[1] != "" {
		t.Errorf("input declared as %+v, expected a first axis named batch", d)
	}
}

// TestBuilderRefuses: Model returns an error for each wrong call; no call panics.
func TestBuilderRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		build      func(b *graph.Builder)
	}{
		{"an input of no tensor", `node "relu" (Relu): input 0 is tensor 7: expected one of 1, or None`, func(b *graph.Builder) { b.Node("Relu", "", 7) }},
		{"an output of no tensor", "graph output 0 is tensor 3: expected one of 0", func(b *graph.Builder) { b.Output(3) }},
		{"too few elements", `tensor "w": its elements: 4 bytes in Raw: expected 8 for float32[2]`, func(b *graph.Builder) { b.Floats("w", []int64{2}, []float32{1}) }},
		{"a negative length", `tensor "w": its elements: shape [-1]: expected lengths of 0 or more`, func(b *graph.Builder) { b.Ints("w", []int64{-1}, nil) }},
		{"more symbols than axes", `tensor "x": its declared type has 2 symbols: expected 1`, func(b *graph.Builder) { b.Input("x", graph.TensorOf(graph.Float32, 1), "a", "b") }},
		{"no name", "tensor 0 has no name: expected one", func(b *graph.Builder) { b.Input("", graph.TensorOf(graph.Float32)) }},
	} {
		b := graph.NewBuilder("bad", 17)
		c.build(b)
		if m, err := b.Model(); m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected an error with %q", c.name, err, c.want)
		}
	}
}
