package limits

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestNoSliceWithoutOperand: slices of a Concat leave out operands, and one in the middle may be
// the only one that reads a node's result. A region whose first and last slice need all of its
// nodes, and a slice between them does not, is no region, whatever the number of slices.
func TestNoSliceWithoutOperand(t *testing.T) {
	b := graph.NewBuilder("operands", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 3, 16))
	y := b.Node("Sigmoid", "y", x)
	z := b.Node("Relu", "z", y)
	all := b.Add(&graph.Node{Name: "concat", Op: "Concat", Inputs: []graph.TensorID{z, y, z, z}, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt}}}, "all")[0]
	b.Output(b.Node("MatMul", "out", all, b.Floats("w", []int64{16, 64}, make([]float32, 16*64))))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	p := slicerOf(t, m, false).search.Program
	tried := 0
	for _, r := range regionsOf(p, [][2]int{{0, 3}, {1, 3}}) {
		for k := 2; k <= 12; k++ {
			c := r.In(k)
			possible := true
			for i := range k {
				possible = possible && r.Slice(i, k) != nil
			}
			if c != nil && !possible {
				t.Errorf("%d nodes from node %d on: not all of %d slices are possible", len(r.Nodes), r.Nodes[0], k)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("%d numbers of slices of regions: expected more", tried)
	}
}
