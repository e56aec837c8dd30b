package lower

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// findActivations finds the activations that the kernels of other nodes may apply.
func (l *lowering) findActivations() error {
	l.then = map[graph.NodeID]*Step{}
	for _, st := range l.f.Steps {
		if next := st.activation(); next != nil {
			l.then[st.ID] = next
		}
	}
	return nil
}

// activation finds the node that overwrites the output of st in place, if it is an
// activation that st's kernel can apply itself, and the only reader of that output.
// The steps between the two do not matter: the bytes are live all the time, and only
// that node reads them.
func (st *Step) activation() *Step {
	f, maker := st.Frame, st.result()
	if by := kernel.Lookup(st.Node().Domain, st.Node().Op); by == nil || !by.Fuses || len(maker.Node().Outputs) == 0 || maker.Node().Outputs[0] < 0 {
		return nil
	}
	out := maker.Node().Outputs[0]
	made := f.Graph.Tensors[out]
	if made.Output || len(made.Readers) != 1 || maker.Out[0].Room == 0 {
		return nil
	}
	next := f.untaken(made.Readers[0])
	if next == nil {
		return nil
	}
	n := next.Node()
	k := kernel.Lookup(n.Domain, n.Op)
	if n.Semantics.Call != nil || k == nil || k.Finish == nil || !next.Exact() || next.Out[0] == nil || next.Out[0].At != maker.Out[0].At || next.Out[0].Type != maker.Out[0].Type {
		return nil
	}
	for i, t := range n.Inputs {
		if (t == out) != (i == 0) {
			return nil
		}
	}
	return next
}

// fuse prepares st, together with its activation if possible.
func (l *lowering) fuse(st *Step) error {
	next, call := l.then[st.ID], st.Call()
	call.Then = nil
	if next != nil {
		if open, err := next.check(); !open && err == nil { // else prepare reports it
			call.Then = kernel.Lookup(next.Node().Domain, next.Node().Op).Finish(next.Call())
		}
	}
	st.freeTables()
	var err error
	if st.Run, err = st.Kernel.Prepare(call); err != nil {
		call.Then, call.Taken = nil, false
		return err
	}
	if call.Taken {
		st.extends(next, next.In[1:]...)
		next.dropCall()
	}
	return nil
}
