package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// joinSums lets a sum or mean of a product's elements, of 16 bits, make them itself, if nobody else reads
// them: a step in float16 checks gradients for overflow so, and those of few rows are dear to write. Its
// kernel runs at its own step, at which the operands must still be there.
func (l *lowering) joinSums() error {
	all := &chain{f: l.f, order: l.order, place: placesOf(l.order)}
	moved := all.movedWrites()
	for st := range l.untaken() {
		l.joinSum(all.of(st.ID), st, moved)
	}
	return nil
}

// joinSum is joinSums for the chain of one node.
func (l *lowering) joinSum(c *chain, st *Step, moved []movedWrite) {
	g := l.f.Graph
	if !kernel.AddsUp(st.Node()) || len(st.Node().Inputs) == 0 || st.Node().Inputs[0] < 0 {
		return
	}
	from := g.Tensors[st.Node().Inputs[0]].Maker
	if from < 0 || !ops.IsProduct(g.Nodes[from]) || l.f.untaken(from) == nil || !l.known(st) || !l.known(l.f.Steps[from]) {
		return
	}
	if c.nodes[from] = true; !c.inner(st.Node().Inputs[0]) {
		return
	}
	for _, t := range slices.Concat(g.Nodes[from].Inputs, st.Node().Inputs[1:]) {
		if t >= 0 && !c.remains(t, c.place[st.ID], moved) {
			return
		}
	}
	list := c.steps()
	// The result may lie where an operand does: it is written after all of them have been widened.
	if run := kernel.SumOfProduct(l.f.Steps[from].Call(), st.Call()); run != nil {
		way := st.Call().Way
		st.takes(run, list, externalOf(list), []*values.Tensor{st.Out[0]})
		st.Way = way
	}
}

// known reports whether a node is none of a function's, and its shapes are known.
func (l *lowering) known(st *Step) bool {
	if st.Node().Semantics.Call != nil || !st.Exact() || len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Const || slices.Contains(st.In, nil) {
		return false
	}
	open, err := st.check() // prepare reports it
	return err == nil && !open
}

// remains reports whether a tensor from outside still has its bytes at a step.
func (c *chain) remains(t graph.TensorID, step int, moved []movedWrite) bool {
	return (c.holds(t, step) || c.stays(t, step)) && !c.lost(t, step, moved)
}
