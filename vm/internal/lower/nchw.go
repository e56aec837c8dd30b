package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// An image in NCHWc (attr.Nchwc) takes as many bytes in NCHW, in which our kernels compute. So the
// session holds such images in NCHW wherever no node can tell the difference: where NCHWc
// operators make and read them, and elementwise operators stand between. The graph alone decides
// which tensors these are, so a run with separate tensors holds the same ones.

// holdNCHW finds the NCHWc images that the frame holds in NCHW.
func (l *lowering) holdNCHW() error {
	f := l.f
	if !slices.ContainsFunc(f.Graph.Nodes, func(n *graph.Node) bool { return n.Domain == attr.Nchwc }) {
		return nil
	}
	block := f.Steps[0].Call().ChannelBlock()
	h := newHolding(f)
	for i, st := range f.Steps {
		n := st.Node()
		if !st.passesImages() || st.Out[0].Type != graph.Float32 {
			continue
		}
		whole := st.Out[0].Shape[1]%block == 0
		switch {
		case n.Domain != attr.Nchwc:
			if h.images[i] = st.images(); !whole {
				h.images[i] = append(h.images[i], graph.None)
			}
		case whole && n.Op != "ReorderOutput":
			h.ends[i] = append(slices.Clip(n.Inputs), n.Outputs[0])
		default:
			h.ends[i] = n.Inputs
		}
	}
	for id, held := range h.find() {
		if held {
			f.hold(graph.TensorID(id), form.NCHW)
		}
	}
	return nil
}

// passesImages reports whether the step's operator could read or make images in NCHW.
func (st *Step) passesImages() bool {
	n := st.Node()
	if len(st.Out) != 1 || st.Out[0] == nil || n.Outputs[0] < 0 || n.Semantics.Call != nil || !st.Exact() || !isImage(st.Out[0].Shape, true) {
		return false
	}
	switch n.Domain {
	case attr.Nchwc:
		return true
	case "", "com.microsoft":
		if ops.Concatenates(n) {
			return st.Call().Int("axis", 0) == 1
		}
		return ops.ClassOf(n) == ops.Elementwise
	}
	return false
}

// images lists the images that must be held alike, all in NCHW or none: those of a step
// that goes through all elements in the same way. Operands of one element are no images.
func (st *Step) images() []graph.TensorID {
	if st.Node().Domain == attr.Nchwc || !st.passesImages() {
		return nil
	}
	n := st.Node()
	concatenates, list := ops.Concatenates(n), []graph.TensorID{n.Outputs[0]}
	for i, t := range st.In {
		if t != nil && (t.Len() != 1 || len(t.Shape) == 4 && concatenates) {
			list = append(list, n.Inputs[i])
			if !concatenates && !slices.Equal(t.Shape, st.Out[0].Shape) {
				list = append(list, graph.None)
			}
		}
	}
	return list
}
