package exec

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Quantized images take as many bytes in NHWC as in NCHW. Without VNNI, convolutions of bytes are
// faster in NHWC. So the session holds such images in NHWC wherever no other operator and no caller
// can tell the difference: where convolutions make and read them, and between them stand
// elementwise operators, means of channels, and products with a number for each channel. A
// convolution can read or write NCHW on either side. As in [lowering.holdNCHW], the graph alone
// decides which tensors these are.

// acrossChannels reports whether an operation on quantized images also takes an image and a
// number for each channel.
func acrossChannels(n *graph.Node) bool {
	k := kernel.Lookup("com.microsoft", n.Op)
	return k != nil && k.Across
}

// prefersNHWC is a variable for tests.
var prefersNHWC = kernel.PrefersPixels

// holdNHWC finds the images that the frame holds in NHWC.
func (l *lowering) holdNHWC() error {
	f := l.f
	if !prefersNHWC() || !slices.ContainsFunc(f.steps, (*step).convolvesNHWC) {
		return nil
	}
	h := newHolding(f)
	for i, st := range f.steps {
		h.images[i], h.ends[i] = st.nhwcImages(), st.nhwcEnds()
	}
	held := h.find()
	for id, t := range f.tensors {
		if held[id] {
			t.Pixels = true
		}
	}
	for _, st := range f.steps {
		if j := st.has().joined; j != nil {
			j.call.Out[0].Pixels = st.out[0].Pixels
			for i := range j.from {
				j.operand(i).Pixels = st.in[i].Pixels
			}
		}
	}
	return nil
}

// convolvesNHWC reports whether the step is a convolution of bytes that can read and
// write images in NHWC.
func (st *step) convolvesNHWC() bool {
	n := st.n()
	switch {
	case st.has().joined != nil:
		return kernel.ConvolvesPixels(&st.has().joined.call)
	case n.Op != "QLinearConv" || n.Domain != "" && n.Domain != "com.microsoft" || n.Semantics.Call != nil || !st.exact() || st.call().Int("channels_last", 0) != 0:
		return false
	}
	if open, err := st.check(); open || err != nil {
		return false // prepare reports it
	}
	return kernel.ConvolvesPixels(st.call())
}

// nhwcEnds lists the images that a step reads or makes in NHWC or NCHW, each for itself.
func (st *step) nhwcEnds() []graph.TensorID {
	n := st.n()
	switch call := st.quantizedCall(); {
	case call == nil:
	case st.convolvesNHWC(), call.Node.Op == "QLinearGlobalAveragePool" && call.Int("channels_last", 0) == 0:
		return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
	case acrossChannels(call.Node):
		for i, t := range st.in {
			if t != nil && kernel.IsChannels(&t.Tensor, &st.out[0].Tensor) {
				return []graph.TensorID{n.Inputs[i]}
			}
		}
	}
	return nil
}

// quantizedCall returns the operation on quantized tensors that a step computes, or nil.
func (st *step) quantizedCall() *kernel.Invocation {
	n := st.n()
	if st.has().joined != nil {
		return &st.has().joined.call
	}
	if n.Domain != "" && n.Domain != "com.microsoft" || n.Semantics.Call != nil || !st.exact() || len(st.out) != 1 || st.out[0] == nil || !st.out[0].Byte() {
		return nil
	}
	if open, err := st.check(); open || err != nil {
		return nil // prepare reports it
	}
	return st.call()
}

// nhwcImages lists the images that must be held alike, all in NHWC or none, of a step
// that goes through all elements in the same way; graph.None stands for one that cannot be
// held. It is empty for any other step.
func (st *step) nhwcImages() []graph.TensorID {
	n := st.n()
	if len(st.out) != 1 || st.out[0] == nil || n.Semantics.Call != nil || !st.exact() || len(st.out[0].Shape) != 4 {
		return nil
	}
	across := false // it may take a number for each channel
	quantizes, dequantizes := ops.Converts(n)
	switch out := st.out[0]; {
	case st.has().joined != nil:
		if across = acrossChannels(st.has().joined.call.Node); !across {
			return nil
		}
	case st.copiesBytes():
		return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
	case n.Domain != "" && n.Domain != "com.microsoft":
		return nil
	case quantizes || dequantizes:
		if len(st.in) < 2 || st.in[1].Len() != 1 || st.call().Int("block_size", 0) != 0 {
			return nil
		}
		if from := st.in[0]; dequantizes && from.Byte() && out.Type == graph.Float32 || quantizes && out.Byte() && from.Type == graph.Float32 {
			return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
		}
		return nil
	case ops.ClassOf(n) != ops.Elementwise:
		return nil
	case out.Type == graph.Float32:
	case out.Byte() && n.Domain == "com.microsoft":
		across = acrossChannels(n)
	default:
		return nil
	}
	list := []graph.TensorID{n.Outputs[0]}
	for i, t := range st.in {
		if t != nil && t.Len() != 1 && !(across && kernel.IsChannels(&t.Tensor, &st.out[0].Tensor)) {
			list = append(list, n.Inputs[i])
			if !slices.Equal(t.Shape, st.out[0].Shape) {
				list = append(list, graph.None)
			}
		}
	}
	return list
}
