package vm

import "github.com/onnxmem/onnxmem/vm/internal/kernel"

// activation finds the node that overwrites the output of st in place, if it is an
// activation that st's kernel can apply itself, and the only reader of that output.
// The steps between the two do not matter: the bytes are live all the time, and only
// that node reads them.
func (st *step) activation() (*step, *kernel.Finish) {
	f, maker := st.f, st
	if st.has().adds != nil {
		maker = st.has().adds
	}
	out := maker.n().Outputs
	if st.f.s.gpu != nil || !st.kernel.Fuses || len(out) != 1 || out[0] < 0 {
		return nil, nil
	}
	made := f.g.Tensors[out[0]]
	if made.Output || len(made.Readers) != 1 || maker.out[0].room == 0 {
		return nil, nil
	}
	next := f.steps[made.Readers[0]]
	n := next.n()
	k := kernel.Lookup(n.Domain, n.Op)
	if next.chained || n.Semantics.Call != nil || k == nil || k.Finish == nil || !next.exact() || next.out[0] == nil || next.out[0].At != maker.out[0].At || next.out[0].Type != maker.out[0].Type {
		return nil, nil
	}
	for i, t := range n.Inputs {
		if (t == out[0]) != (i == 0) {
			return nil, nil
		}
	}
	if open, err := next.check(); open || err != nil {
		return nil, nil // prepare reports it
	}
	return next, k.Finish(next.call())
}

// fuse prepares st, together with its activation if possible.
func (st *step) fuse() error {
	next, finish := st.activation()
	st.call().Then = finish
	st.freeTables()
	var err error
	if st.run, err = st.kernel.Prepare(st.call()); err != nil {
		st.call().Then, st.call().Taken = nil, false
		return err
	}
	if st.call().Taken {
		next.fusedInto, next.run, st.own().fused = st, nil, next
		next.dropCall()
		if st.has().adds != nil {
			st.has().adds.unread = true
		}
	}
	return nil
}
