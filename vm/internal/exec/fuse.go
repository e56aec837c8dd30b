package exec

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// findActivations finds the activations that the kernels of other nodes may apply.
func (l *lowering) findActivations() error {
	l.then = map[graph.NodeID]*step{}
	for _, st := range l.f.steps {
		if next := st.activation(); next != nil {
			l.then[st.node] = next
		}
	}
	return nil
}

// activation finds the node that overwrites the output of st in place, if it is an
// activation that st's kernel can apply itself, and the only reader of that output.
// The steps between the two do not matter: the bytes are live all the time, and only
// that node reads them.
func (st *step) activation() *step {
	f, maker := st.f, st
	if t := st.task(); t != nil {
		maker = t.covers[len(t.covers)-1]
	}
	if by := kernel.Lookup(st.n().Domain, st.n().Op); by == nil || !by.Fuses || len(maker.n().Outputs) != 1 || maker.n().Outputs[0] < 0 {
		return nil
	}
	out := maker.n().Outputs[0]
	made := f.g.Tensors[out]
	if made.Output || len(made.Readers) != 1 || maker.out[0].Room == 0 {
		return nil
	}
	next := f.steps[made.Readers[0]]
	n := next.n()
	k := kernel.Lookup(n.Domain, n.Op)
	if !next.single() || n.Semantics.Call != nil || k == nil || k.Finish == nil || !next.exact() || next.out[0] == nil || next.out[0].At != maker.out[0].At || next.out[0].Type != maker.out[0].Type {
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
func (l *lowering) fuse(st *step) error {
	next, call := l.then[st.node], st.call()
	call.Then = nil
	if next != nil {
		if open, err := next.check(); !open && err == nil { // else prepare reports it
			call.Then = kernel.Lookup(next.n().Domain, next.n().Op).Finish(next.call())
		}
	}
	st.freeTables()
	var err error
	if st.run, err = st.kernel.Prepare(call); err != nil {
		call.Then, call.Taken = nil, false
		return err
	}
	if call.Taken {
		st.extends(next, next.in[1:]...)
		next.dropCall()
	}
	return nil
}
