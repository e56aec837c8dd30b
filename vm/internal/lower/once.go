package lower

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// onlyPacked reports whether a node reads only constants, and whether only products,
// or further nodes of this kind, read its output. It is false for operators that are
// not typical of weights (ops.OnWeights), since their output may be much larger than
// their inputs. given is an input that will be a constant.
func (st *Step) onlyPacked(given graph.TensorID) bool {
	n, g := st.Node(), st.Frame.Graph
	if !ops.OnWeights(n) || !st.Exact() ||
		len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Bytes() == 0 {
		return false
	}
	for i, t := range st.In {
		if t != nil && !t.Const && n.Inputs[i] != given {
			return false
		}
	}
	out := g.Tensors[n.Outputs[0]]
	return !out.Output && len(out.Readers) > 0 && !slices.ContainsFunc(out.Readers, func(r graph.NodeID) bool {
		return !isProduct(g.Nodes[r]) && !st.Frame.Steps[r].onlyPacked(st.Node().Outputs[0])
	})
}

// castsNumber reports whether a node is a Cast of a constant number. Kernels take in numbers that
// are constants, such as the bounds of a Clip.
func (st *Step) castsNumber() bool {
	if !st.Frame.casts(st.ID) {
		return false
	}
	out := st.Node().Outputs[0]
	return st.In[0].Const && st.In[0].Len() == 1 && st.Out[0].Type != graph.String && !st.Frame.Graph.Tensors[out].Output
}

// isProduct reports whether a node computes a product, which packs its weights.
func isProduct(n *graph.Node) bool {
	k := kernel.Lookup(n.Domain, n.Op)
	return n.Semantics.Call == nil && k != nil && k.Fuses
}

// foldWeights computes the constants that only products read, and numbers of another type.
func (l *lowering) foldWeights() error {
	for id := range l.f.Steps {
		if st := l.f.untaken(graph.NodeID(id)); st != nil {
			l.at = st
			l.computeOnce(st)
		}
	}
	return nil
}

// computeOnce runs a node that computes a constant for products, or a number, when the session is
// built. The node then does nothing at run time.
func (b *builder) computeOnce(st *Step) {
	if !st.castsNumber() && (b.s.Options.NoPack || !st.onlyPacked(graph.None) || !b.mayCompute(st)) {
		return
	}
	_ = b.computeNow(st) // if no memory may be used for it, the node runs at every step
}

// computeNow runs a node whose output is a constant when the session is built. It fails if
// no memory may be used for it. A node that cannot run is left to prepare, which reports
// that.
func (b *builder) computeNow(st *Step) error {
	n, g := st.Node(), b.origin(st)
	if open, err := st.check(); open || err != nil {
		return nil
	}
	run, err := kernel.Lookup(n.Domain, n.Op).Prepare(st.Call())
	if err != nil {
		return nil
	}
	out := st.Out[0]
	place := out.At
	out.At, err = b.s.Constants.Take(g, out.Bytes(), b.s.Options.Bound(), b.fill(st, run))
	if err != nil {
		out.At = place
		return err
	}
	out.Const, out.Made, st.Frame.changed = true, g, true
	st.Frame.computed = append(st.Frame.computed, st)
	if b.s.Compared != nil {
		b.s.Compared.CompareOnce(st, run)
	}
	return nil
}

// origin is the tensor of the program that a step computes, whose constant all points share.
func (b *builder) origin(st *Step) *graph.Tensor {
	return b.s.Program.Origin(st.Frame.Graph, st.Node().Outputs[0])
}

// computeQuantized runs the nodes that compute, from constants, a quantized constant or the
// scale or zero point of a QuantizeLinear or DequantizeLinear. What is computed between such
// nodes is computed from bytes if these are constants: with other bits than from reals. So
// they must be constants whether they were folded or not, and with Options.NoPack, too.
func (b *builder) computeQuantized(f *Frame) error {
	order, _ := f.Graph.Topological()
	serves := make([]bool, len(f.Steps))
	for _, id := range slices.Backward(order) {
		serves[id] = f.Steps[id].forQuantized(serves)
	}
	for _, id := range order {
		st := f.Steps[id]
		if !serves[id] || slices.ContainsFunc(st.In, func(t *values.Tensor) bool { return t != nil && !t.Const }) {
			continue
		}
		b.at = st
		if err := b.computeNow(st); err != nil {
			return err
		}
	}
	return nil
}

// forQuantized reports whether a step computes such a constant, or what one is computed
// from. serves says that of the steps that read it.
func (st *Step) forQuantized(serves []bool) bool {
	n := st.Node()
	if kernel.Lookup(n.Domain, n.Op) == nil || n.Semantics.Call != nil || !st.Frame.fixed(n) || !st.Exact() ||
		len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Const || st.Out[0].Type == graph.String || st.Out[0].Bytes() == 0 {
		return false
	}
	id := n.Outputs[0]
	out := st.Frame.Graph.Tensors[id]
	return !out.Output && slices.ContainsFunc(out.Readers, func(r graph.NodeID) bool {
		n := st.Frame.Graph.Nodes[r]
		switch quantizes, dequantizes := ops.Converts(n); {
		case n.Domain != "":
			return false
		case dequantizes:
			return true
		case quantizes:
			return slices.Contains(n.Inputs[1:], id)
		}
		return serves[r]
	})
}

// releasePacked frees the computed constants that every reader has packed. The
// frame's steps must still be in the order of its nodes.
func (l *lowering) releasePacked() error {
	l.leaveOutAlike()
	for _, st := range l.f.computed {
		out := st.Out[0]
		if l.s.Constants.Give(l.origin(st), int64(out.Bytes()), st.packedByAll()) {
			out.At = nil
		}
	}
	return nil
}

// packedByAll reports whether every reader has packed the constant that the step computes.
func (st *Step) packedByAll() bool {
	id := st.Node().Outputs[0]
	return !slices.ContainsFunc(st.Frame.Graph.Tensors[id].Readers, func(r graph.NodeID) bool {
		reader := st.Frame.Steps[r]
		return !reader.Once() && (reader.reads(id) > 1 || !slices.Contains(reader.packed(), &st.Out[0].Tensor))
	})
}

// computeAgain computes the constants that were freed, because every reader had them
// prepacked, but that a reader of this frame has not. At another point of a plan for ranges
// of dimensions, a product may want another packed form, or none. Such a constant stays.
func (l *lowering) computeAgain() error {
	f := l.f
	if !l.s.Program.IsPoint() {
		return nil
	}
	for _, st := range f.computed {
		if st.Out[0].At != nil || st.packedByAll() {
			continue
		}
		l.at = st
		if err := l.computeOutput(st); err != nil {
			return err
		}
		for _, r := range f.Graph.Tensors[st.Node().Outputs[0]].Readers {
			reader := f.Steps[r]
			l.at = reader
			reader.Call().SharedBytes, reader.Call().EachBytes = 0, 0
			if err := l.prepare(reader); err != nil { // of nodes that run
				return err
			}
		}
	}
	return nil
}

// computeOutput computes a constant that was freed, and those that it is computed from.
func (b *builder) computeOutput(st *Step) error {
	for _, id := range st.Node().Inputs {
		if id < 0 || st.Frame.Tensors[id].At != nil {
			continue
		}
		if err := b.computeOutput(st.Frame.Steps[st.Frame.Graph.Tensors[id].Maker]); err != nil {
			return err
		}
	}
	run, err := kernel.Lookup(st.Node().Domain, st.Node().Op).Prepare(st.Call())
	if err != nil {
		return err
	}
	out := st.Out[0]
	out.At, err = b.s.Constants.Again(b.origin(st), out.Bytes(), b.s.Options.Bound(), b.fill(st, run))
	return err
}

// fill returns a function that runs the kernel of a step with its output at a place.
func (b *builder) fill(st *Step, run kernel.Run) func(dst unsafe.Pointer) error {
	return func(dst unsafe.Pointer) error {
		if _, err := b.s.ScratchFor(st); err != nil {
			return err
		}
		if err := b.s.GrowScratch(); err != nil {
			return err
		}
		st.Out[0].At = dst
		if b.s.Mem.Guard != nil {
			st.UseScratch(b.s.Pool)
		}
		return run(b.s.Pool)
	}
}

// reads counts the inputs of the node that are tensor id. A product that reads a constant
// twice may have packed it for one of the two operands only.
func (st *Step) reads(id graph.TensorID) (n int) {
	for _, t := range st.Node().Inputs {
		if t == id {
			n++
		}
	}
	return n
}
