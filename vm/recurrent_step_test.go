package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// Steps of recurrent layers, whose cells are iterations of Scans with bodies that are
// planned, give the same bits in the arena as with every tensor apart.
func TestRecurrentSteps(t *testing.T) {
	for op, gates := range map[string]int64{"RNN": 1, "GRU": 3, "LSTM": 4} {
		t.Run(op, func(t *testing.T) {
			const steps, batch, width, hidden = 12, 3, 5, 8
			b := graph.NewBuilder(op, 18)
			weight := drawn(b)
			x := b.Input("x", graph.TensorOf(graph.Float32, steps, batch, width))
			for i, side := range []string{"forward", "reverse"} {
				n := &graph.Node{
					Name: side, Op: op, Inputs: []graph.TensorID{
						x, weight(side+".w", 1, gates*hidden, []int64{width, hidden}[i]), weight(side+".r", 1, gates*hidden, hidden), weight(side+".b", 1, 2*gates*hidden),
					},
					Attrs: []*graph.Attr{{Name: "hidden_size", Type: graph.AttrInt, Int: hidden}, {Name: "direction", Type: graph.AttrString, String: side}},
				}
				y := b.Add(n, side+".y")[0]
				x = b.Node("Squeeze", side+".flat", y, b.Ints(side+".axes", []int64{1}, []int64{1}))
			}
			b.Output(b.Node("ReduceMean", "mean", x, b.Ints("axis", []int64{1}, []int64{0})))
			m, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			p, r := program(t, write(t, m, op), passes.Options{Train: &autodiff.Options{Loss: "mse"}})
			scans := 0
			for _, n := range r.Model.Graph.Nodes {
				if n.Op == "Scan" {
					scans++
				}
			}
			if scans != 4 {
				t.Errorf("%d Scans: expected two layers and their gradients", scans)
			}
			planned, _ := runSteps(t, p, vm.Options{Poison: true}, r.Step.Params, 3)
			apart, _ := runSteps(t, p, vm.Options{Separate: true}, r.Step.Params, 3)
			sameBits(t, "apart", apart, planned)
			// The weights of the recurrence are packed once for all iterations of a Scan, and
			// again in the next step, which has other weights.
			plain, few := runSteps(t, p, vm.Options{NoPack: true}, r.Step.Params, 3)
			packed, more := runSteps(t, p, vm.Options{}, r.Step.Params, 3)
			sameBits(t, "packed in every iteration", plain, packed)
			if a, b := few.Memory().ScratchBytes, more.Memory().ScratchBytes; a >= b {
				t.Errorf("scratch: %d bytes, and %d with weights that are packed once: expected more", a, b)
			}
		})
	}
}
