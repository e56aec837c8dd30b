package form

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// WeightGradWindow returns the window of the convolution of input 0 whose result has the
// gradient input 1.
func (c *Call) WeightGradWindow() (*Window, error) {
	w, err := attr.ReadPool(c.Node)
	if err != nil {
		return nil, err
	}
	return ThreeAxes(w, c.In[0].Shape[2:], c.In[1].Shape[2:])
}

// Window is how the kernel of a convolution or a pool moves over an image, with
// all padding made explicit. There are three spatial axes: those that an image
// does not have have length 1 and come first.
type Window struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // Pad: before the image
	After                                  [3]int // padding behind it
}

// ConvWindow is the window of a convolution of x with weight.
func (c *Call) ConvWindow(x, weight, out *Tensor) (*Window, error) {
	return NewWindow(c, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
}

// NewWindow reads the window of a convolution from an image of the spatial
// lengths in to one of the lengths out.
func NewWindow(c *Call, kernel, in, out []int) (*Window, error) {
	w, err := attr.ReadWindow(c.Node, Dims(kernel))
	if err != nil {
		return nil, err
	}
	w.Pad(toInt64s(in), toInt64s(out))
	return ThreeAxes(w, in, out)
}

// PoolWindow reads the window of a pool from input 0 to output 0.
func (c *Call) PoolWindow() (*Window, error) {
	w, err := attr.ReadPool(c.Node)
	if err != nil {
		return nil, err
	}
	in, out := c.In[0].Shape[2:], c.Out[0].Shape[2:]
	w.Pad(toInt64s(in), toInt64s(out))
	return ThreeAxes(w, in, out)
}

// TransposedWindow reads the window of a transposed convolution. It is the window
// of the convolution that leads back, from the output to the input.
func (c *Call) TransposedWindow() (*Window, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	w, err := attr.ReadTransposed(c.Node, Dims(weight.Shape[2:]))
	if err != nil {
		return nil, err
	}
	w.PadTransposed(toInt64s(x.Shape[2:]), toInt64s(out.Shape[2:]))
	return ThreeAxes(w, out.Shape[2:], x.Shape[2:])
}

// Swapped is the window of the convolution whose kernel is the result of v's, as that of the
// gradient of weights is.
func (v *Window) Swapped() *Window {
	return &Window{In: v.In, Out: v.Kernel, Kernel: v.Out, Stride: v.Dilation, Dilation: v.Stride, Pad: v.Pad}
}

// ThreeAxes is the window of an image of the spatial lengths in and a result of the lengths
// out. There are up to three.
func ThreeAxes(w *attr.Window, in, out []int) (*Window, error) {
	n := len(w.Kernel)
	if n > 3 {
		return nil, Unsupportedf("%d spatial axes, more than 3", n)
	}
	v := &Window{}
	for a := range 3 {
		v.In[a], v.Out[a], v.Kernel[a], v.Stride[a], v.Dilation[a] = 1, 1, 1, 1, 1
	}
	for i := range n {
		a := 3 - n + i
		v.In[a], v.Out[a], v.Kernel[a] = in[i], out[i], int(w.Kernel[i])
		v.Stride[a], v.Dilation[a] = int(w.Stride[i]), int(w.Dilation[i])
		v.Pad[a], v.After[a] = int(w.Before[i]), int(w.After[i])
	}
	return v, nil
}

// cuts is the number of steps of at most size that n consists of.
func cuts(n, size int) int { return (n + size - 1) / size }

// Dims returns lengths in the form of a graph.
func Dims(shape []int) []graph.Dim {
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

// Inputs and outputs are the numbers of elements of a plane of the image and of
// the result; taps is the number of elements of the kernel.
func (v *Window) Inputs() int { return v.In[0] * v.In[1] * v.In[2] }

func (v *Window) Outputs() int { return v.Out[0] * v.Out[1] * v.Out[2] }

func (v *Window) Taps() int { return v.Kernel[0] * v.Kernel[1] * v.Kernel[2] }

// Flat reports whether each output has the element at its place under the kernel, and no
// other: the image is the matrix of a product.
func (v *Window) Flat() bool {
	return v.Taps() == 1 && v.Stride == [3]int{1, 1, 1} && v.Pad == [3]int{} && v.In == v.Out
}

// Reach returns where the kernel starts along an axis for output position o,
// below 0 in the padding, and its taps [from, to) that lie within the image.
func (v *Window) Reach(a, o int) (start, from, to int) {
	start = o*v.Stride[a] - v.Pad[a]
	if start < 0 {
		from = cuts(-start, v.Dilation[a])
	}
	to = v.Kernel[a]
	if last := v.In[a] - start; last < (to-1)*v.Dilation[a]+1 {
		to = max(from, cuts(last, v.Dilation[a]))
	}
	return start, from, max(to, from)
}

// Seen returns the taps [from, to) of the kernel along an axis that lie within
// the image at some output position. A kernel that is longer than the image and
// its outputs has few of them.
func (v *Window) Seen(a int) (from, to int) {
	from = max(0, cuts(v.Pad[a]-(v.Out[a]-1)*v.Stride[a], v.Dilation[a]))
	return from, min(v.Kernel[a], cuts(v.In[a]+v.Pad[a], v.Dilation[a]))
}

// Within returns the output positions [from, to) along an axis at which tap k of
// the kernel lies within the image.
func (v *Window) Within(a, k int) (from, to int) {
	shift := k*v.Dilation[a] - v.Pad[a]
	if shift < 0 {
		from = cuts(-shift, v.Stride[a])
	}
	to = min(v.Out[a], cuts(max(v.In[a]-shift, 0), v.Stride[a]))
	return from, to
}
