package lower

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
	f, place := l.f, placesOf(l.order)
	for st := range l.untaken() {
		id, n := st.ID, st.Node()
		if n.Op != "Add" || n.Domain != "" || !st.plainReals() || st.Out[0].Room == 0 || n.Inputs[0] == n.Inputs[1] {
			continue
		}
		for i, t := range n.Inputs {
			by, x := f.convolution(t, id), st.In[1-i]
			from := f.Graph.Tensors[n.Inputs[1-i]].Maker
			if by == nil || !slices.Equal(x.Shape, st.Out[0].Shape) || from < 0 || place[from] >= place[by.ID] {
				continue
			}
			// The convolution may not overwrite what it still reads, or what a node reads that
			// runs between it and the Add.
			over := st.Out[0].At == x.At
			if over && (values.Overlap(x, by.In[0]) || place[id] != place[by.ID]+1) {
				continue
			}
			if !over && st.Out[0].At != by.Out[0].At || !kernel.AddsResidual(by.Call()) {
				continue
			}
			by.Call().Residual, by.Call().Out = &x.Tensor, []*kernel.Tensor{&st.Out[0].Tensor}
			by.extends(st, x)
			break // the other operand is made before
		}
	}
	return nil
}

// convolution returns the step that makes a tensor, which only one node reads, if its kernel
// may add another to it.
func (f *Frame) convolution(t graph.TensorID, reader graph.NodeID) *Step {
	made := f.Graph.Tensors[t]
	if made.Maker < 0 || made.Output || !slices.Equal(made.Readers, []graph.NodeID{reader}) {
		return nil
	}
	st := f.untaken(made.Maker)
	if st == nil || !st.plainReals() || st.Out[0].Const || st.Out[0].Room == 0 || st.Node().Op != "Conv" {
		return nil
	}
	return st
}
