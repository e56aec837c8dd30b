package cost_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
)

// The form of a product follows from what it makes, and weights count apart.
func TestWhole(t *testing.T) {
	ints := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	group := func(n int64) *graph.Attr { return &graph.Attr{Name: "group", Type: graph.AttrInt, Int: n} }
	for _, c := range []struct {
		name string
		add  func(b *graph.Builder) graph.TensorID
		want cost.Work
	}{
		{"product with a weight", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 2, 3, 4))
			return b.Node("MatMul", "y", x, b.Floats("w", []int64{4, 5}, make([]float32, 20)))
		}, cost.Work{FLOPs: 240, Bytes: 4 * (24 + 30), Weights: 80, Batch: 2, Rows: 3, Columns: 5}},
		{"convolution in groups", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 1, 4, 6, 7))
			return b.Add(&graph.Node{Op: "Conv", Inputs: []graph.TensorID{x, b.Floats("w", []int64{6, 2, 1, 1}, make([]float32, 12))}, Attrs: []*graph.Attr{group(2)}}, "y")[0]
		}, cost.Work{FLOPs: 2 * 6 * 42 * 2, Bytes: 4 * 10 * 42, Weights: 48, Batch: 2, Rows: 42, Columns: 3}},
		{"depthwise convolution", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 1, 4, 6, 7))
			return b.Add(&graph.Node{Op: "Conv", Inputs: []graph.TensorID{x, b.Floats("w", []int64{4, 1, 3, 3}, make([]float32, 36))}, Attrs: []*graph.Attr{group(4), ints("pads", 1, 1, 1, 1)}}, "y")[0]
		}, cost.Work{FLOPs: 2 * 4 * 42 * 9, Bytes: 4 * 8 * 42, Weights: 144, Batch: 4, Rows: 42, Columns: 1, Planes: 4}},
		{"activation of a product", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 3, 4))
			return b.Node("Relu", "y", b.Node("MatMul", "p", x, b.Floats("w", []int64{4, 5}, make([]float32, 20))))
		}, cost.Work{FLOPs: 15, Bytes: 2 * 60, Fused: true}},
		{"activation with a function", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 3, 4))
			return b.Node("Mish", "y", b.Node("MatMul", "p", x, b.Floats("w", []int64{4, 5}, make([]float32, 20))))
		}, cost.Work{FLOPs: 15, Bytes: 2 * 60, Functions: 3 * 15, Fused: true}},
		{"rows of a large tensor", func(b *graph.Builder) graph.TensorID {
			x := b.Input("x", graph.TensorOf(graph.Float32, 1000, 8))
			return b.Node("Slice", "y", x, b.Ints("lo", []int64{1}, []int64{2}), b.Ints("hi", []int64{1}, []int64{5}))
		}, cost.Work{Bytes: 2 * 3 * 8 * 4}},
		{"view", func(b *graph.Builder) graph.TensorID {
			return b.Node("Flatten", "y", b.Input("x", graph.TensorOf(graph.Float32, 2, 3, 4)))
		}, cost.Work{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.NewBuilder("g", 17)
			b.Output(c.add(b))
			m, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ops.Infer(m, ops.Options{}); err != nil {
				t.Fatal(err)
			}
			if got := cost.Whole(m.Graph, m.Graph.Nodes[len(m.Graph.Nodes)-1]); got != c.want {
				t.Errorf("%+v, expected %+v", got, c.want)
			}
		})
	}
}

func TestRows(t *testing.T) {
	x := cost.Tensor{Bytes: 240, Lengths: []graph.Dim{5, 12}}
	if got := x.Rows(1, 3); got.Bytes != 60 || got.Lengths[1] != 3 || x.Lengths[1] != 12 {
		t.Errorf("3 of 12 columns are %+v, and the tensor %+v", got, x)
	}
}
