package attr

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Window is how the kernel of a convolution or a pool moves over an image. Each
// list has one entry for each spatial axis.
//
//	kernel 3, stride 2, dilation 2, padding 1 before and 2 after an image of 6:
//
//	  padded image  . 0 1 2 3 4 5 . .
//	  place 0       x   x   x          extent 5: (3-1)·2 + 1
//	  place 1           x   x   x
//	  place 2               x   x   x
type Window struct {
	Kernel           []graph.Dim // elements of the kernel
	Stride, Dilation []int64
	// Before and After count the elements of padding on both sides of the image.
	// With AutoPad SAME they are 0 until Pad or PadTransposed computes them.
	Before, After []int64
	AutoPad       string // NOTSET, VALID, SAME_UPPER or SAME_LOWER
	Ceil          bool   // a pool's last window may end behind the padding

	// OutputPadding lengthens the result of a transposed convolution.
	OutputPadding []int64
	// OutputShape is the stated result of a transposed convolution, its spatial
	// axes alone; nil if it is not stated.
	OutputShape []int64
}

// ReadWindow reads kernel_shape, strides, dilations, pads and auto_pad. kernel
// is the spatial shape of the weights. It fails if kernel_shape contradicts it.
func ReadWindow(n *graph.Node, kernel []graph.Dim) (*Window, error) {
	w, spatial := &Window{Kernel: slices.Clone(kernel)}, len(kernel)
	var err error
	if w.Stride, err = List(n, "strides", spatial, 1, 1); err != nil {
		return nil, err
	}
	if w.Dilation, err = List(n, "dilations", spatial, 1, 1); err != nil {
		return nil, err
	}
	pads, err := List(n, "pads", 2*spatial, 0, 0)
	if err != nil {
		return nil, err
	}
	if w.AutoPad, err = OneOf(n, "auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""); err != nil {
		return nil, err
	}
	if w.AutoPad == "" {
		w.AutoPad = "NOTSET"
	}
	if w.AutoPad != "NOTSET" {
		clear(pads)
	}
	w.Before, w.After = pads[:spatial:spatial], pads[spatial:]
	if len(Ints(n, "kernel_shape")) > 0 {
		stated, err := List(n, "kernel_shape", spatial, 0, 0)
		if err != nil {
			return nil, err
		}
		for i, k := range stated {
			if w.Kernel[i].Exact() && int64(w.Kernel[i]) != k {
				return nil, graph.Errorf("kernel_shape is %d, expected %s to match the weights", stated, graph.ShapeString(kernel))
			}
			w.Kernel[i] = graph.Dim(k)
		}
	}
	for i, k := range w.Kernel {
		if n, ok := k.Max(); ok && (n > Most || n == 0) {
			return nil, graph.Errorf("the kernel has length %d along spatial axis %d, expected 1 to %d", n, i, Most)
		}
	}
	return w, nil
}

// ReadPool reads the window of a pool or of MaxUnpool, whose kernel is the
// attribute kernel_shape.
func ReadPool(n *graph.Node) (*Window, error) {
	spatial := len(Ints(n, "kernel_shape"))
	if spatial == 0 {
		return nil, graph.Errorf("kernel_shape is missing: expected one length per spatial axis")
	}
	w, err := ReadWindow(n, slices.Repeat([]graph.Dim{graph.Unknown}, spatial))
	if err != nil {
		return nil, err
	}
	w.Ceil = Int(n, "ceil_mode", 0) != 0
	return w, nil
}

// ReadTransposed reads the window of a transposed convolution: that of
// ReadWindow, output_padding and output_shape.
func ReadTransposed(n *graph.Node, kernel []graph.Dim) (*Window, error) {
	w, err := ReadWindow(n, kernel)
	if err != nil {
		return nil, err
	}
	spatial := len(kernel)
	if w.OutputPadding, err = List(n, "output_padding", spatial, 0, 0); err != nil {
		return nil, err
	}
	stated := Ints(n, "output_shape")
	switch len(stated) {
	case 0:
		return w, nil
	case spatial:
	case spatial + 2:
		stated = stated[2:] // some exporters state the batch and the channels too
	default:
		return nil, graph.Errorf("output_shape has %d lengths, expected %d, one per spatial axis", len(stated), spatial)
	}
	for i, v := range stated {
		if v < 0 {
			return nil, graph.Errorf("output_shape[%d] is %d, expected a length", i, v)
		}
	}
	w.OutputShape = slices.Clone(stated)
	return w, nil
}

// Same reports whether auto_pad makes the padding follow from the lengths of
// the image and of the result.
func (w *Window) Same() bool { return w.AutoPad == "SAME_UPPER" || w.AutoPad == "SAME_LOWER" }

// Extent returns the number of elements from the first to the last that a
// kernel of length k covers along axis i: (k-1)·dilation + 1.
func (w *Window) Extent(i int, k int64) int64 { return (k-1)*w.Dilation[i] + 1 }

// Reach is Extent for the kernel of the window, whose length must be exact.
func (w *Window) Reach(i int) int64 { return w.Extent(i, int64(w.Kernel[i])) }

// KernelShape returns the lengths of the kernel, which must be exact.
func (w *Window) KernelShape() []int64 {
	shape := make([]int64, len(w.Kernel))
	for i, k := range w.Kernel {
		shape[i] = int64(k)
	}
	return shape
}

// Places returns at how many places a kernel of the given extent stands along
// axis i of an image whose length with its padding is padded. With auto_pad
// SAME, padded is the length of the image itself and the extent does not matter.
//
// The division rounds towards zero, as in ONNX's own shape inference and in
// ONNX Runtime: a kernel that overhangs the image by less than a stride still
// stands at one place.
func (w *Window) Places(i int, padded, extent int64) int64 {
	stride := w.Stride[i]
	if w.Same() {
		return ceilDiv(padded, stride)
	}
	over := padded - extent
	if !w.Ceil {
		return max(over/stride+1, 0)
	}
	// The last window must not begin in the padding behind the image.
	places := ceilDiv(over, stride) + 1
	if end := padded - w.After[i]; (places-1)*stride >= end {
		places--
	}
	return max(places, 0)
}

// TransposedLen returns the length of axis i of what undoes a window with stated
// padding, a transposed convolution or MaxUnpool: wide is the length of its input
// times the stride, plus the extent of the kernel. The result is negative if the
// padding is larger than the image, and the largest number if it overflows.
func (w *Window) TransposedLen(i int, wide int64) int64 {
	more := -w.Stride[i] - w.Before[i] - w.After[i]
	if w.OutputPadding != nil {
		more += w.OutputPadding[i]
	}
	if more > 0 && wide > math.MaxInt64-more {
		return math.MaxInt64
	}
	return wide + more
}

// Pad computes the padding that auto_pad SAME asks for: the image has the
// lengths in, and the result has the lengths out. If the sum of an axis is odd,
// SAME_UPPER puts the larger part behind the image, SAME_LOWER before it. Pad
// changes nothing if the padding is stated.
func (w *Window) Pad(in, out []int64) {
	if !w.Same() {
		return
	}
	for i := range w.Kernel {
		w.split(i, (out[i]-1)*w.Stride[i]+w.Reach(i)-in[i], w.AutoPad == "SAME_UPPER")
	}
}

// PadTransposed computes the padding that makes a transposed convolution of an
// input of lengths in give a result of lengths out, if output_shape or auto_pad
// SAME fix the result. It follows the equations of ConvTranspose in ONNX: if the
// sum of an axis is odd, SAME_UPPER cuts the larger part off the end of the
// result, everything else cuts it off the beginning. PadTransposed changes nothing
// if the padding is stated.
func (w *Window) PadTransposed(in, out []int64) {
	if !w.Same() && w.OutputShape == nil {
		return
	}
	for i := range w.Kernel {
		w.split(i, (in[i]-1)*w.Stride[i]+w.OutputPadding[i]+w.Reach(i)-out[i], w.AutoPad == "SAME_UPPER")
	}
}

// split divides the padding of an axis between its two sides. upper says which
// of them gets the larger half: the one behind the image.
func (w *Window) split(i int, total int64, upper bool) {
	total = max(total, 0)
	w.Before[i], w.After[i] = total-total/2, total/2
	if upper {
		w.Before[i], w.After[i] = w.After[i], w.Before[i]
	}
}

// ceilDiv is a/b for b > 0, rounded up where a is positive and towards zero
// where it is not.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
