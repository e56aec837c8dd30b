package exec

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/program"
)

// foldShapes computes the small constants that follow from shapes.
func (l *lowering) foldShapes() error {
	for _, id := range l.order {
		l.at = l.f.steps[id]
		if err := l.computeFixed(l.f.steps[id]); err != nil {
			return err
		}
	}
	return nil
}

// computeFixed runs a node on the host when a session on a device is built, if it computes a
// few integers or bools from shapes and constants alone. They are the same at every step, and
// a constant from then on. So no step waits for the host to compute a shape.
func (b *builder) computeFixed(st *step) error {
	n, s := st.n(), b.s
	if s.watch.comparer != nil || // it looks at every node
		n.Semantics.Call != nil || len(n.Bodies()) > 0 || len(st.out) != 1 || st.out[0] == nil || st.out[0].Const || st.out[0].Box != nil || !st.exact() || st.idle() {
		return nil
	}
	out := st.out[0]
	g := st.f.g.Tensors[n.Outputs[0]]
	if !program.IsFew(g) || g.Output || st.f.g.Outputs != nil && slices.Contains(st.f.g.Outputs, n.Outputs[0]) {
		return nil
	}
	for _, t := range st.in {
		if t != nil && !t.Const && !ops.OfShape(n) {
			return nil
		}
	}
	k := kernel.Lookup(n.Domain, n.Op)
	if k == nil || k.Finds || n.Semantics.Random {
		return nil
	}
	if open, err := st.check(); open || err != nil {
		return nil // prepare reports it
	}
	place := out.At
	words := make([]uint64, out.Bytes()/8+1)
	out.At = unsafe.Pointer(unsafe.SliceData(words))
	run, err := k.Prepare(st.call())
	if err != nil {
		out.At = place
		return nil // prepare finds out why
	}
	if _, err := s.scratchFor(st); err != nil {
		return err
	}
	if err := s.growScratch(); err != nil {
		return err
	}
	if err := run(s.Pool); err != nil {
		return err
	}
	out.Const = true
	st.kernel = k
	return nil
}
