package lower

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// spans adds the places of tensors that lie in several buffers of the block at base.
func (a *area) spans(p *plan.Plan, named map[string]graph.TensorID, base unsafe.Pointer) {
	for i := range p.Spans {
		span := &p.Spans[i]
		at := spot{at: unsafe.Add(base, p.Buffers[span.Buffers[0]].Offset)}
		for _, k := range span.Buffers {
			at.bytes += p.Buffers[k].Bytes
		}
		for _, name := range span.Tensors {
			a.tensors[named[name]] = at
		}
	}
}

// inPlace reports whether a node has nothing to do: all bytes of its outputs are bytes of
// inputs that lie there already, as the plan made it. If only some of them do, the kernel
// copies the others, and those onto themselves.
func (st *Step) inPlace() bool {
	if st.Frame.Site.GPU != nil || len(st.Node().Semantics.Ranges) == 0 {
		return false
	}
	open := 0 // bytes of the outputs for which that is not shown
	for _, t := range st.Out {
		if t != nil {
			open += t.Bytes()
		}
	}
	for _, r := range st.Node().Semantics.Ranges {
		in, out := st.In[r.In], st.Out[r.Out]
		if in == nil || out == nil || in.Const || in.Room == 0 || out.Room == 0 || unsafe.Add(in.At, r.From) != unsafe.Add(out.At, r.At) {
			return false
		}
		open -= int(r.Bytes)
	}
	return open == 0
}
