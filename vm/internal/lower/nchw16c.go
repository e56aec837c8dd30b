package lower

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Images of reals take as many bytes in NCHW16c as in NCHW, and convolutions in NCHW16c need not
// pack them first. So the session holds images in NCHW16c wherever no other operator and no caller
// can tell the difference: where convolutions and pools make and read them, and elementwise
// operators stand between. Channels are whole blocks or, between convolutions of float32 and what
// scales and averages their images, half a block more. A convolution can read or write NCHW on
// either side. As in [lowering.holdNCHW], the graph alone decides which tensors these are; the bits
// of all results are the same either way.

// holdNCHW16c finds the images that the frame holds in NCHW16c.
func (l *lowering) holdNCHW16c() error {
	f := l.f
	h := newHolding(f)
	h.volumes = true
	some := false
	for st := range l.untaken() {
		i, form := st.ID, st.blockForm()
		some = some || form.In || form.Out
		n := st.Node()
		switch {
		case form.Alike && form.In:
			h.images[i] = []graph.TensorID{n.Inputs[form.Image], n.Outputs[0]}
		case form.In || form.Out:
			if form.In {
				h.ends[i] = append(h.ends[i], n.Inputs[0])
			}
			switch {
			case form.Out && form.Added > 0:
				h.images[i] = []graph.TensorID{n.Inputs[form.Added], n.Outputs[0]}
			case form.Out:
				h.ends[i] = append(h.ends[i], n.Outputs[0])
			}
			if form.Out && form.Needs {
				h.needs[i] = []graph.TensorID{n.Inputs[0], n.Outputs[0]}
			}
		default:
			h.images[i] = st.blockImages()
		}
	}
	if !some {
		return nil
	}
	for id, held := range h.find() {
		if held {
			f.hold(graph.TensorID(id), form.NCHW16c)
		}
	}
	return nil
}

// blockForm tells which images of a step its kernel can read and write in NCHW16c.
func (st *Step) blockForm() kernel.BlockForm {
	n := st.Node()
	k := kernel.Lookup(n.Domain, n.Op)
	if k == nil || k.Blocks == nil || !st.plainReals() {
		return kernel.BlockForm{}
	}
	if open, err := st.check(); open || err != nil {
		return kernel.BlockForm{} // prepare reports it
	}
	return k.BlockForm(st.Call())
}

// plainReals reports whether the step's node makes one image of reals of at most 32 bits, of
// shapes that are known.
func (st *Step) plainReals() bool {
	n := st.Node()
	if len(st.Out) == 1 && st.Out[0] != nil && n.Outputs[0] >= 0 && n.Semantics.Call == nil && st.Exact() &&
		isImage(st.Out[0].Shape, true) {
		switch st.Out[0].Type {
		case graph.Float32, graph.Float16, graph.BFloat16:
			return true
		}
	}
	return false
}

// blockImages is [step.images] for NCHW16c: of an elementwise operator, or of a Concat of whole
// blocks of channels.
func (st *Step) blockImages() []graph.TensorID {
	if !st.plainReals() {
		return nil
	}
	list := st.images()
	if !ops.Concatenates(st.Node()) {
		return list
	}
	for _, t := range st.In {
		if t == nil || len(t.Shape) != 4 || t.Shape[1]%kernel.BlockLen != 0 {
			return nil
		}
	}
	return list
}
