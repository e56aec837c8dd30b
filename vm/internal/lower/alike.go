package lower

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// findAlike finds the weights whose elements a node makes alike. Kernels can pack them without
// their elements, and a node all of whose readers have done so does not run (releasePacked).
func (l *lowering) findAlike() error {
	for _, st := range l.f.Steps {
		n := st.Node()
		k := kernel.Lookup(n.Domain, n.Op)
		if l.s.Options.NoPack || n.Semantics.Call != nil || k == nil || !k.Alike || !st.Exact() || st.Idle() || st.Out[0].Type != graph.Float32 || !st.forProducts() {
			continue
		}
		element, err := st.Call().FillElement()
		if err != nil {
			continue // prepare reports it
		}
		st.Out[0].Alike = unsafe.Pointer(unsafe.SliceData(element))
	}
	return nil
}

// forProducts reports whether only products read the step's output.
func (st *Step) forProducts() bool {
	g := st.Frame.Graph
	out := g.Tensors[st.Node().Outputs[0]]
	for _, r := range out.Readers {
		if !isProduct(g.Nodes[r]) {
			return false
		}
	}
	return !out.Output && len(out.Readers) > 0
}

// leaveOutAlike leaves out the nodes whose elements all readers have packed.
func (l *lowering) leaveOutAlike() {
	for _, st := range l.f.Steps {
		if len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Alike != nil && st.packedByAll() {
			st.Run, st.Way = nil, "packed by its readers"
		}
	}
}
