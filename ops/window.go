package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// window is how a kernel slides over the spatial axes of an image.
type window struct {
	kernel    []graph.Dim
	strides   []int64
	dilations []int64
	pads      []int64 // of the beginnings, then of the ends; 0 unless auto is NOTSET
	auto      string
	ceil      bool
}

// window reads strides, dilations, pads and auto_pad. kernel is what the
// weights say; kernel_shape, if stated, must agree with it.
func (c *Call) window(spatial int, kernel []graph.Dim) (*window, error) {
	w := &window{kernel: slices.Clone(kernel)}
	var err error
	if w.strides, err = c.perAxis("strides", spatial, 1, 1); err != nil {
		return nil, err
	}
	if w.dilations, err = c.perAxis("dilations", spatial, 1, 1); err != nil {
		return nil, err
	}
	if w.pads, err = c.perAxis("pads", 2*spatial, 0, 0); err != nil {
		return nil, err
	}
	if w.auto, err = c.OneOf("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""); err != nil {
		return nil, err
	}
	if w.auto != "NOTSET" && w.auto != "" {
		clear(w.pads)
	}
	if len(c.Ints("kernel_shape")) > 0 {
		stated, err := c.perAxis("kernel_shape", spatial, 0, 0)
		if err != nil {
			return nil, err
		}
		for i, k := range stated {
			if differ(graph.Dim(k), w.kernel[i]) {
				return nil, c.Errf("kernel_shape is %d, expected %s to match the weights", stated, graph.ShapeString(kernel))
			}
			w.kernel[i] = graph.Dim(k)
		}
	}
	for i, k := range w.kernel {
		if n, ok := k.Max(); ok && (n > maxAttr || n == 0) {
			return nil, c.Errf("the kernel has length %d along spatial axis %d, expected 1 to %d", n, i, maxAttr)
		}
	}
	if _, err := c.product(w.kernel); err != nil {
		return nil, err
	}
	return w, nil
}

// perAxis is a list attribute of n values of at least least; otherwise
// repeated when it is left out or empty.
func (c *Call) perAxis(attr string, n int, least, otherwise int64) ([]int64, error) {
	v := c.Ints(attr)
	if len(v) == 0 {
		return slices.Repeat([]int64{otherwise}, n), nil
	}
	if len(v) != n {
		return nil, c.Errf("%s has %d values, expected %d", attr, len(v), n)
	}
	for i, x := range v {
		if x < least || x > maxAttr {
			return nil, c.Errf("%s[%d] is %d, expected %d to %d", attr, i, x, least, maxAttr)
		}
	}
	return slices.Clone(v), nil
}

func (w *window) same() bool { return w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" }

// extent is the length that the dilated kernel covers: (k-1)·dilation + 1.
func (w *window) extent(i int) graph.Dim {
	return Mono(w.kernel[i], func(k int64) int64 { return (k-1)*w.dilations[i] + 1 })
}

// padded is the image's length with its padding.
func (w *window) padded(i int, n graph.Dim) graph.Dim {
	pad := w.pads[i] + w.pads[len(w.kernel)+i]
	if w.same() {
		// As much as is needed: the kernel fits in any case.
		return graph.Unknown
	}
	return AddDims(n, graph.Dim(pad))
}

// slide is the number of places at which the kernel stands along spatial axis
// i of an image of length n. A kernel that is not known gives the bound of the
// smallest one. Divisions round towards zero, as they do in ONNX's own shape
// inference and in ONNX Runtime: a kernel that overhangs the image by less than
// a stride still stands at one place.
func (w *window) slide(i int, n graph.Dim) graph.Dim {
	stride := w.strides[i]
	if w.same() {
		return Mono(n, func(k int64) int64 { return ceilDiv(k, stride) })
	}
	extent := int64(1)
	exact := w.kernel[i].Exact()
	if exact {
		extent = int64(w.extent(i))
	}
	out := Mono(w.padded(i, n), func(k int64) int64 {
		k -= extent
		if !w.ceil {
			return k/stride + 1
		}
		// The last place must not begin in the padding at the end.
		places := ceilDiv(k, stride) + 1
		if last := k + extent - w.pads[len(w.kernel)+i]; (places-1)*stride >= last {
			places--
		}
		return places
	})
	if most, ok := out.Max(); ok && !exact {
		return graph.AtMost(most)
	}
	return out
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// clampAdd is a + b, or the largest number if that overflows.
func clampAdd(a, b int64) int64 {
	if s, ok := addChecked(a, b); ok {
		return s
	}
	return int64(^uint64(0) >> 1)
}
