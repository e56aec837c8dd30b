package passes

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSlicesOfFreeNodes: nodes that take no time by estimate, as a Dropout that copies nothing,
// have slices whose extra time is a number.
func TestSlicesOfFreeNodes(t *testing.T) {
	b := graph.NewBuilder("free", 17)
	b.Output(b.Node("Dropout", "y", b.Input("x", graph.TensorOf(graph.Float32, 3, 3, 4, 4, 4))))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	found, err := Optimize(t.Context(), m, Options{Slices: SlicesAny, NoViews: true, Pools: []Pool{{"fast", 921, 0}, {"slow", 1382, 1e8}, {"last", 3456, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	if cost := found.Plan.Summary.SliceCostPercent; found.Plan.Slices == nil || math.IsInf(cost, 0) || math.IsNaN(cost) {
		t.Errorf("slices %+v take %v %% more time: expected a number", found.Plan.Slices, cost)
	}
}

// TestInputsThatSlicesRead: a region lists no operand of a Concat of which no slice reads a row.
func TestInputsThatSlicesRead(t *testing.T) {
	b := graph.NewBuilder("operands", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 8, 16, 16))
	y := b.Input("y", graph.TensorOf(graph.Float32, 1, 8, 16, 16))
	all := b.Add(&graph.Node{Name: "concat", Op: "Concat", Inputs: []graph.TensorID{x, y, y}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: 1}}}, "all")[0]
	one := func(name string, v int64) graph.TensorID { return b.Ints(name, []int64{1}, []int64{v}) }
	rows := b.Node("Slice", "rows", all, one("from", 9), one("to", 23), one("axis", 1))
	b.Output(b.Node("Sigmoid", "out", rows))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	found, err := Optimize(t.Context(), m, Options{Slices: SlicesExact, ExtraPercent: 1000, Aliases: AliasesOff})
	if err != nil {
		t.Fatal(err)
	}
	if found.Plan.Slices == nil || len(found.GivenUp) > 0 {
		t.Fatalf("slices %+v, given up: %v", found.Plan.Slices, found.GivenUp)
	}
	read := map[string]bool{}
	for _, in := range found.Plan.Slices.Regions[0].Inputs {
		read[in.Tensor] = true
	}
	if read["x"] || !read["y"] {
		t.Errorf("inputs %v: expected y and not x", read)
	}
}
