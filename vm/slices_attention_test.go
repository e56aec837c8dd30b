package vm_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
)

// Attention whose keys are cut, with the largest score so far and scaled sums, gives the
// results of the whole up to rounding, in operator sets whose reductions have attributes
// and inputs. The mask hides a whole row, and whole slices of others.
func TestAttentionInPieces(t *testing.T) {
	const queries, keys, width = 4, 512, 8
	for _, set := range []int64{12, 17, 18} {
		for _, guard := range []bool{false, true} {
			c := slicedGraph{fmt.Sprintf("opset %d, guard %t", set, guard), func(b *graph.Builder) {
				mask := make([]float32, queries*keys)
				for i := range mask {
					if q, k := i/keys, i%keys; q == 1 && k < keys/2 || q == 2 && k >= keys/8 || q == 3 && guard {
						mask[i] = float32(math.Inf(-1))
					}
				}
				q := b.Input("q", graph.TensorOf(graph.Float32, 1, queries, width))
				k := b.Input("k", graph.TensorOf(graph.Float32, 1, keys, width))
				s := b.Node("MatMul", "s", q, b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{k}, Attrs: []*graph.Attr{ints("perm", 0, 2, 1)}}, "t")[0])
				s = b.Node("Add", "masked", s, b.Floats("mask", []int64{1, queries, keys}, mask))
				p := b.Add(&graph.Node{Op: "Softmax", Inputs: []graph.TensorID{s}, Attrs: []*graph.Attr{integer("axis", 2)}}, "p")[0]
				if guard {
					p = b.Node("Where", "w", b.Node("IsNaN", "n", p), b.Floats("zero", nil, []float32{0}), p)
				}
				b.Output(b.Node("Relu", "y", b.Node("MatMul", "o", p, k)))
			}, 0}
			t.Run(c.name, func(t *testing.T) {
				plan := checkSliced(t, c, set, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Bytes: 24 << 10}})
				if r := plan.Slices.Regions[0]; len(r.Running) != 1 || r.Running[0] != "p" || r.Exact {
					t.Errorf("expected a region that cuts the axis of p, found %+v", r)
				}
			})
		}
	}
}
