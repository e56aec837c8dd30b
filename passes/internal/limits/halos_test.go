package limits

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// A region whose neighbouring slices share rows cannot write its output over its input.
// But if all slices take their rows first, and put theirs together at the end, input and
// output are never there at once. The estimate knows it, so fewer slices meet a limit, and
// the order that is found for them is as good as the estimate.
func TestSlicesThatRunApart(t *testing.T) {
	const channels, size, tensor = 8, 64, 8 * 64 * 64 * 4
	b := graph.NewBuilder("halos", 17)
	conv := func(name string, in graph.TensorID, from, to int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{to, from, 3, 3}, make([]float32, to*from*9))
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{in, w}, Attrs: []*graph.Attr{{Name: "pads", Type: graph.AttrInts, Ints: []int64{1, 1, 1, 1}}}}, name)[0]
	}
	// Softmax over all elements cannot be sliced.
	all := func(name string, in graph.TensorID) graph.TensorID {
		flat := b.Node("Reshape", name+".flat", in, b.Ints(name+".all", []int64{2}, []int64{1, -1}))
		return b.Node("Reshape", name, b.Node("Softmax", name+".softmax", flat), b.Ints(name+".shape", []int64{4}, []int64{1, channels, size, size}))
	}
	y := all("first", b.Input("x", graph.TensorOf(graph.Float32, 1, channels, size, size)))
	y = conv("wide", y, channels, 2*channels)
	y = conv("narrow", y, 2*channels, channels)
	b.Output(all("last", y))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	x := slicerOf(t, m, false)
	const limit = 5 * tensor / 2
	fewest := func(apart bool) int {
		list, _, _, ok := x.search.Cover(t.Context(), limit, limit, apart)
		if !ok || len(list) != 1 {
			t.Fatalf("apart %v: %d regions: expected one", apart, len(list))
		}
		sliced, err := x.apply(t.Context(), x.search.Choices(list))
		if err != nil {
			t.Fatal(err)
		}
		if sliced.peak > limit {
			t.Errorf("apart %v: peak %d with %d slices: expected at most %d", apart, sliced.peak, list[0].Slices, limit)
		}
		return list[0].Slices
	}
	if one, apart := fewest(false), fewest(true); apart >= one {
		t.Errorf("%d slices apart, %d one after the other: expected fewer", apart, one)
	}
}
