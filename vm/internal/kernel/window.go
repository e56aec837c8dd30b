package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// window is how the kernel of a convolution or a pool moves over an image, with
// all padding made explicit. There are three spatial axes: those that an image
// does not have have length 1 and come first.
type window struct {
	in, out, kernel, stride, dil, pads [3]int // pads: before the image
	after                              [3]int // pads behind it
}

// newWindow reads the window of a convolution from an image of the spatial
// lengths in to one of the lengths out.
func newWindow(c *Invocation, kernel, in, out []int) (*window, error) {
	w, err := attr.ReadWindow(c.Node, toDims(kernel))
	if err != nil {
		return nil, err
	}
	w.Pad(toInt64s(in), toInt64s(out))
	return threeAxes(w, in, out)
}

// poolWindow reads the window of a pool from input 0 to output 0.
func poolWindow(c *Invocation) (*window, error) {
	w, err := attr.ReadPool(c.Node)
	if err != nil {
		return nil, err
	}
	in, out := c.In[0].Shape[2:], c.Out[0].Shape[2:]
	w.Pad(toInt64s(in), toInt64s(out))
	return threeAxes(w, in, out)
}

// transposedWindow reads the window of a transposed convolution. It is the window
// of the convolution that leads back, from the output to the input.
func transposedWindow(c *Invocation) (*window, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	w, err := attr.ReadTransposed(c.Node, toDims(weight.Shape[2:]))
	if err != nil {
		return nil, err
	}
	w.PadTransposed(toInt64s(x.Shape[2:]), toInt64s(out.Shape[2:]))
	return threeAxes(w, out.Shape[2:], x.Shape[2:])
}

func threeAxes(w *attr.Window, in, out []int) (*window, error) {
	n := len(w.Kernel)
	if n > 3 {
		return nil, unsupportedf("%d spatial axes, more than 3", n)
	}
	v := &window{}
	for a := range 3 {
		v.in[a], v.out[a], v.kernel[a], v.stride[a], v.dil[a] = 1, 1, 1, 1, 1
	}
	for i := range n {
		a := 3 - n + i
		v.in[a], v.out[a], v.kernel[a] = in[i], out[i], int(w.Kernel[i])
		v.stride[a], v.dil[a] = int(w.Stride[i]), int(w.Dilation[i])
		v.pads[a], v.after[a] = int(w.Before[i]), int(w.After[i])
	}
	return v, nil
}

func toDims(shape []int) []graph.Dim {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		dims[i] = graph.Dim(n)
	}
	return dims
}

func toInt64s(list []int) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

// inputs and outputs are the numbers of elements of a plane of the image and of
// the result; taps is the number of elements of the kernel.
func (v *window) inputs() int  { return v.in[0] * v.in[1] * v.in[2] }
func (v *window) outputs() int { return v.out[0] * v.out[1] * v.out[2] }
func (v *window) taps() int    { return v.kernel[0] * v.kernel[1] * v.kernel[2] }

// flat reports whether each output has the element at its place under the kernel, and no
// other: the image is the matrix of a product.
func (v *window) flat() bool {
	return v.taps() == 1 && v.stride == [3]int{1, 1, 1} && v.pads == [3]int{} && v.in == v.out
}

// reach returns where the kernel starts along an axis for output position o,
// below 0 in the padding, and its taps [from, to) that lie within the image.
func (v *window) reach(a, o int) (start, from, to int) {
	start = o*v.stride[a] - v.pads[a]
	if start < 0 {
		from = cuts(-start, v.dil[a])
	}
	to = v.kernel[a]
	if last := v.in[a] - start; last < (to-1)*v.dil[a]+1 {
		to = max(from, cuts(last, v.dil[a]))
	}
	return start, from, max(to, from)
}

// seen returns the taps [from, to) of the kernel along an axis that lie within
// the image at some output position. A kernel that is longer than the image and
// its outputs has few of them.
func (v *window) seen(a int) (from, to int) {
	from = max(0, cuts(v.pads[a]-(v.out[a]-1)*v.stride[a], v.dil[a]))
	return from, min(v.kernel[a], cuts(v.in[a]+v.pads[a], v.dil[a]))
}

// within returns the output positions [from, to) along an axis at which tap k of
// the kernel lies within the image.
func (v *window) within(a, k int) (from, to int) {
	shift := k*v.dil[a] - v.pads[a]
	if shift < 0 {
		from = cuts(-shift, v.stride[a])
	}
	to = min(v.out[a], cuts(max(v.in[a]-shift, 0), v.stride[a]))
	return from, to
}
