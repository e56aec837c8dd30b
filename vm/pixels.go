package vm

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Quantized images take as many bytes with their channels last, as pixels, as with their
// channels first, in planes. Without VNNI, convolutions of bytes are faster in pixels. So
// the session holds such images in pixels wherever no other operator and no caller can tell
// the difference: where convolutions make and read them, and operators that go through all
// elements alike stand between. Each convolution can turn what it reads or writes in planes.
// As in [frame.holdPlanes], only the graph decides which tensors these are.

// quantizedAlike lists the operators of ONNX Runtime on bytes that go through all elements
// of their operands in the same way.
var quantizedAlike = []string{"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"}

// prefersPixels is a variable for tests.
var prefersPixels = kernel.PrefersPixels

// holdPixels finds the images that the frame holds in pixels.
func (f *frame) holdPixels() {
	if !prefersPixels() || !slices.ContainsFunc(f.steps, (*step).convolvesPixels) {
		return
	}
	held := make([]bool, len(f.tensors))
	groups := make([][]graph.TensorID, len(f.steps))
	for i, st := range f.steps {
		var ends []graph.TensorID // in pixels or planes, each for itself
		if st.convolvesPixels() {
			ends = []graph.TensorID{st.call.Node.Outputs[0]}
		} else {
			groups[i] = st.pixelImages()
			ends = groups[i]
		}
		for _, id := range st.call.Node.Outputs {
			if id >= 0 && slices.Contains(ends, id) {
				held[id] = len(f.tensors[id].Shape) == 4 && !f.g.Tensors[id].Output
			}
		}
	}
	for i, st := range f.steps {
		for k, id := range st.call.Node.Inputs {
			if id >= 0 && !(st.convolvesPixels() && k == 0) && !slices.Contains(groups[i], id) {
				held[id] = false
			}
		}
	}
	for id, t := range f.g.Tensors {
		for _, r := range t.Readers { // a body may read it, too
			held[id] = held[id] && slices.Contains(f.steps[r].call.Node.Inputs, graph.TensorID(id))
		}
	}
	for again := true; again; {
		again = false
		for _, images := range groups {
			if slices.ContainsFunc(images, func(t graph.TensorID) bool { return t < 0 || !held[t] }) {
				for _, t := range images {
					if t >= 0 && held[t] {
						again, held[t] = true, false
					}
				}
			}
		}
	}
	for id, t := range f.tensors {
		if held[id] {
			t.Pixels = true
		}
	}
	for _, st := range f.steps {
		if j := st.joined; j != nil {
			j.call.In[0].Pixels, j.call.Out[0].Pixels = st.in[0].Pixels, st.out[0].Pixels
		}
	}
}

// convolvesPixels reports whether the step is a convolution of bytes that can read and
// write images in pixels.
func (st *step) convolvesPixels() bool {
	n := st.call.Node
	switch {
	case st.joined != nil:
		return kernel.ConvolvesPixels(&st.joined.call)
	case n.Op != "QLinearConv" || n.Domain != "" && n.Domain != "com.microsoft" || n.Semantics.Call != nil || !st.exact() || st.call.Int("channels_last", 0) != 0:
		return false
	}
	if open, err := st.check(); open || err != nil {
		return false // prepare reports it
	}
	return kernel.ConvolvesPixels(&st.call)
}

// pixelImages lists the images that must be held alike, all in pixels or none, of a step
// that goes through all elements in the same way; graph.None stands for one that cannot be
// held. It is empty for any other step.
func (st *step) pixelImages() []graph.TensorID {
	n := st.call.Node
	if len(st.out) != 1 || st.out[0] == nil || n.Semantics.Call != nil || !st.exact() || st.joined != nil || len(st.out[0].Shape) != 4 {
		return nil
	}
	switch out := st.out[0]; {
	case st.copies8:
		return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
	case n.Domain != "" && n.Domain != "com.microsoft":
		return nil
	case n.Op == "QuantizeLinear" || n.Op == "DequantizeLinear":
		if len(st.in) < 2 || st.in[1].Len() != 1 || st.call.Int("block_size", 0) != 0 {
			return nil
		}
		if bytes, reals := st.in[0], out; n.Op == "DequantizeLinear" && bytes.Byte() && reals.Type == graph.Float32 ||
			n.Op == "QuantizeLinear" && reals.Byte() && bytes.Type == graph.Float32 {
			return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
		}
		return nil
	case out.Type == graph.Float32 && slices.Contains(alike, n.Op), out.Byte() && n.Domain == "com.microsoft" && slices.Contains(quantizedAlike, n.Op):
	default:
		return nil
	}
	list := []graph.TensorID{n.Outputs[0]}
	for i, t := range st.in {
		if t != nil && t.Len() != 1 {
			list = append(list, n.Inputs[i])
			if !slices.Equal(t.Shape, st.out[0].Shape) {
				list = append(list, graph.None)
			}
		}
	}
	return list
}
