package exec

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// The sum of a convolution's result and another image (a residual connection) is computed by
// the convolution, which then writes the sum alone, where the Add would. The other image must
// be there before the convolution runs. The bits are those of the two nodes.

// joinResiduals finds such sums among the nodes of a frame.
func (l *lowering) joinResiduals() error {
	f, order := l.f, l.order
	place := placesOf(order)
	for _, id := range order {
		st := f.steps[id]
		n := st.n()
		if n.Op != "Add" || n.Domain != "" || !st.single() || !st.plainReals() || !st.out[0].Blocks || st.out[0].Room == 0 || n.Inputs[0] == n.Inputs[1] {
			continue
		}
		for i, t := range n.Inputs {
			by, x := f.convolution(t, id), st.in[1-i]
			from := f.g.Tensors[n.Inputs[1-i]].Maker
			if by == nil || !slices.Equal(x.Shape, st.out[0].Shape) || !x.Blocks || from < 0 || place[from] >= place[by.node] {
				continue
			}
			// The convolution may not overwrite what it still reads, or what a node reads that
			// runs between it and the Add.
			over := st.out[0].At == x.At
			if over && (values.Overlap(x, by.in[0]) || place[id] != place[by.node]+1) {
				continue
			}
			if !over && st.out[0].At != by.out[0].At || !kernel.AddsResidual(by.call()) {
				continue
			}
			by.call().Residual, by.call().Out = &x.Tensor, []*kernel.Tensor{&st.out[0].Tensor}
			by.extends(st, x)
			break // the other operand is made before
		}
	}
	return nil
}

// convolution returns the step that makes a tensor, which only one node reads, if its kernel
// may add another to it.
func (f *frame) convolution(t graph.TensorID, reader graph.NodeID) *step {
	made := f.g.Tensors[t]
	if made.Maker < 0 || made.Output || !slices.Equal(made.Readers, []graph.NodeID{reader}) {
		return nil
	}
	st := f.steps[made.Maker]
	if !st.single() || !st.plainReals() || st.out[0].Const || st.out[0].Room == 0 || st.n().Op != "Conv" {
		return nil
	}
	return st
}
