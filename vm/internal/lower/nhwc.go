package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Quantized images take as many bytes in NHWC as in NCHW, and convolutions of bytes are faster in
// NHWC. So the session holds such images in NHWC wherever no other operator and no caller
// can tell the difference: where convolutions make and read them, and between them stand
// elementwise operators, means of channels, and products with a number for each channel. A
// convolution can read or write NCHW on either side. As in [lowering.holdNCHW], the graph alone
// decides which tensors these are.

// acrossChannels reports whether an operation on quantized images also takes an image and a
// number for each channel.
func acrossChannels(n *graph.Node) bool {
	k := kernel.Lookup("com.microsoft", n.Op)
	return k != nil && k.Across && (n.Domain == "" || n.Domain == "com.microsoft")
}

// prefersNHWC is a variable for tests.
var prefersNHWC = kernel.PrefersPixels

// holdNHWC finds the images that the frame holds in NHWC.
func (l *lowering) holdNHWC() error {
	f := l.f
	if !slices.ContainsFunc(f.Steps, (*Step).convolvesNHWC) {
		return nil
	}
	h := newHolding(f)
	for i, st := range f.Steps {
		h.images[i], h.ends[i] = st.nhwcImages(), st.nhwcEnds()
	}
	for id, held := range h.find() {
		if held {
			f.hold(graph.TensorID(id), form.NHWC)
		}
	}
	return nil
}

// convolvesNHWC reports whether the step is a convolution of bytes that can read and
// write images in NHWC, and should.
func (st *Step) convolvesNHWC() bool {
	call := st.quantizedCall()
	return call != nil && call.Int("channels_last", 0) == 0 && kernel.ConvolvesPixels(call) && prefersNHWC(call)
}

// nhwcEnds lists the images that a step reads or makes in NHWC or NCHW, each for itself.
func (st *Step) nhwcEnds() []graph.TensorID {
	n := st.Node()
	switch call := st.quantizedCall(); {
	case call == nil:
	case st.convolvesNHWC(), call.Node.Op == "QLinearGlobalAveragePool" && call.Int("channels_last", 0) == 0:
		return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
	case acrossChannels(call.Node):
		for i, t := range st.In {
			if t != nil && kernel.IsChannels(&t.Tensor, &st.Out[0].Tensor) {
				return []graph.TensorID{n.Inputs[i]}
			}
		}
	}
	return nil
}

// quantizedCall returns the operation on quantized tensors that a step computes, or nil.
func (st *Step) quantizedCall() *kernel.Invocation {
	n := st.operator()
	if !st.writesBytes() || n.Domain != "" && n.Domain != "com.microsoft" || n.Semantics.Call != nil || !st.Exact() {
		return nil
	}
	if open, err := st.check(); open || err != nil {
		return nil // prepare reports it
	}
	return st.computes()
}

// nhwcImages lists the images that must be held alike, all in NHWC or none, of a step
// that goes through all elements in the same way; graph.None stands for one that cannot be
// held. It is empty for any other step.
func (st *Step) nhwcImages() []graph.TensorID {
	n, op := st.Node(), st.operator()
	if len(st.Out) != 1 || st.Out[0] == nil || n.Semantics.Call != nil || !st.Exact() || len(st.Out[0].Shape) != 4 {
		return nil
	}
	across := st.writesBytes() && acrossChannels(op) // it may take a number for each channel
	quantizes, dequantizes := ops.Converts(op)
	switch out := st.Out[0]; {
	case across:
	case n.Domain != "" && n.Domain != "com.microsoft":
		return nil
	case quantizes || dequantizes:
		if len(st.In) < 2 || st.In[1].Len() != 1 || st.Call().Int("block_size", 0) != 0 {
			return nil
		}
		if from := st.In[0]; dequantizes && from.Byte() && out.Type == graph.Float32 || quantizes && out.Byte() && from.Type == graph.Float32 {
			return []graph.TensorID{n.Inputs[0], n.Outputs[0]}
		}
		return nil
	case ops.ClassOf(op) != ops.Elementwise || out.Type != graph.Float32 && !(out.Byte() && op.Domain == "com.microsoft"):
		return nil
	}
	list := []graph.TensorID{n.Outputs[0]}
	for i, t := range st.In {
		if t != nil && t.Len() != 1 && !(across && kernel.IsChannels(&t.Tensor, &st.Out[0].Tensor)) {
			list = append(list, n.Inputs[i])
			if !slices.Equal(t.Shape, st.Out[0].Shape) {
				list = append(list, graph.None)
			}
		}
	}
	return list
}
