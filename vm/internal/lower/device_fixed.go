package lower

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
		l.at = l.f.Steps[id]
		if err := l.computeFixed(l.f.Steps[id]); err != nil {
			return err
		}
	}
	return nil
}

// computeFixed runs a node on the host when a session on a device is built, if it computes a
// few integers or bools from shapes and constants alone. They are the same at every step, and
// a constant from then on. So no step waits for the host to compute a shape.
func (b *builder) computeFixed(st *Step) error {
	n, s := st.Node(), b.s
	if s.Compared != nil || // it looks at every node
		n.Semantics.Call != nil || len(n.Bodies()) > 0 || len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Const || st.Out[0].Box != nil || !st.Exact() || st.Idle() {
		return nil
	}
	out := st.Out[0]
	g := st.Frame.Graph.Tensors[n.Outputs[0]]
	if !program.IsFew(g) || g.Output || st.Frame.Graph.Outputs != nil && slices.Contains(st.Frame.Graph.Outputs, n.Outputs[0]) {
		return nil
	}
	for _, t := range st.In {
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
	run, err := k.Prepare(st.Call())
	if err != nil {
		out.At = place
		return nil // prepare finds out why
	}
	if _, err := s.ScratchFor(st); err != nil {
		return err
	}
	if err := s.GrowScratch(); err != nil {
		return err
	}
	if err := run(s.Pool); err != nil {
		return err
	}
	out.Const, st.Frame.changed = true, true
	st.Kernel = k
	return nil
}
