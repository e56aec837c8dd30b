package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
)

// A single node can be a region. In a chain of depthwise and pointwise convolutions, the
// former run in slices of channels and the latter in slices of rows, each over its input. So
// little more than one tensor is live. Two of them together are no such region.
func TestSlicesOfOneNode(t *testing.T) {
	const channels, size = 32, 16
	b := graph.NewBuilder("separable", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 1, size, size))
	conv := func(name string, in graph.TensorID, each, group, kernel int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{channels, each, kernel, kernel}, make([]float32, channels*each*kernel*kernel))
		pad := kernel / 2
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{in, w}, Attrs: []*graph.Attr{
			{Name: "group", Type: graph.AttrInt, Int: group},
			{Name: "pads", Type: graph.AttrInts, Ints: []int64{pad, pad, pad, pad}},
		}}, name)[0]
	}
	y := conv("stem", x, 1, 1, 3)
	y = conv("depthwise1", y, 1, channels, 3)
	y = conv("pointwise1", y, channels, 1, 1)
	y = conv("depthwise2", y, 1, channels, 3)
	y = conv("pointwise2", y, channels, 1, 1)
	b.Output(b.Node("GlobalAveragePool", "pool", y))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	const tensor = channels * size * size * 4
	r, err := passes.Optimize(t.Context(), m, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Bytes: tensor * 5 / 4}})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Plan.Summary; s.UnslicedPeakBytes != 2*tensor || s.PeakBytes > tensor*5/4 {
		t.Errorf("peak %d, %d whole: expected at most %d, and %d", s.PeakBytes, s.UnslicedPeakBytes, tensor*5/4, 2*tensor)
	}
	alone := 0
	for _, region := range r.Plan.Slices.Regions {
		if len(region.Nodes) == 1 {
			alone++
		}
	}
	if alone < 2 {
		t.Errorf("%d regions of one node: expected depthwise2 and a pointwise one", alone)
	}
}
