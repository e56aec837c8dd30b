package limits

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// images is a chain of convolutions over a batch of images: from one channel to wide ones,
// wide ones again, and back to one.
func images(t *testing.T, batch, wide, size int64) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("images", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Dim(batch), 1, graph.Dim(size), graph.Dim(size)))
	conv := func(name string, in graph.TensorID, from, to int64) graph.TensorID {
		w := b.Floats(name+".weight", []int64{to, from, 3, 3}, make([]float32, to*from*9))
		return b.Add(&graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{in, w}, Attrs: []*graph.Attr{{Name: "pads", Type: graph.AttrInts, Ints: []int64{1, 1, 1, 1}}}}, name)[0]
	}
	y := conv("in", x, 1, wide)
	y = conv("middle", y, wide, wide)
	b.Output(conv("out", y, wide, 1))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A graph input dies when all slices have taken their rows of it, as other inputs of a region
// do. So the estimate for slices that run apart counts it as they need it: all of it twice,
// and then the rows of the slices that are left.
func TestInputsDieApart(t *testing.T) {
	const batch, wide, size = 8, 5, 16
	const image = size * size * 4
	x := slicerOf(t, images(t, batch, wide, size), false)
	const need = (batch-1)*image + 2*wide*image
	if _, _, _, ok := x.search.Cover(t.Context(), need, need, false); ok {
		t.Errorf("slice by slice, regions need at most %d bytes: expected more, as the input and the output are whole beside a slice", need)
	}
	choices, _, _, ok := x.search.Cover(t.Context(), need, need, true)
	if !ok {
		t.Fatalf("no regions that run apart are estimated to need at most %d bytes", need)
	}
	m, err := x.apply(t.Context(), x.search.Choices(choices))
	if err != nil {
		t.Fatal(err)
	}
	if m.peak > need {
		t.Errorf("peak %d, estimated %d", m.peak, need)
	}
}

// Of slices with the same peak, those with the lower bound promise more if they cost next to
// nothing more, and the cheapest if not.
func TestPromisingSlices(t *testing.T) {
	x := slicerOf(t, images(t, 8, 5, 16), false)
	model := func(to int, peak int64, extra float64) *slicedModel {
		r := x.search.Find(0, to, to, 0)
		if r == nil {
			t.Fatalf("no region of the nodes 0 to %d", to)
		}
		return &slicedModel{choices: []*slicing.Choice{r.In(8)}, from: x, peak: peak, extra: extra}
	}
	part, all, dear := model(1, 1000, 0.01), model(2, 1000, 0.014), model(2, 1000, 0.03)
	if a, b := x.least(all.choices), x.least(part.choices); a >= b {
		t.Fatalf("bounds %d and %d: expected that of all nodes to be lower", a, b)
	}
	higher := model(2, 1001, 0)
	if best := promising([]*slicedModel{higher, dear, part, all}); best != all {
		t.Errorf("peak %d, cost %v: expected the lower bound for %v", best.peak, best.extra, all.extra)
	}
	if best := promising([]*slicedModel{higher, dear, part}); best != part {
		t.Errorf("peak %d, cost %v: expected the smallest peak for %v", best.peak, best.extra, part.extra)
	}
}
