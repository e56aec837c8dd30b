package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// window is an attr.Window over images and kernels whose lengths may be bounds or
// unknown.
type window struct{ *attr.Window }

// window reads the window of a convolution with weights of the spatial shape
// kernel.
func (c *Call) window(kernel []graph.Dim) (window, error) {
	return c.boundedWindow(attr.ReadWindow(c.Node, kernel))
}

// transposedWindow reads the window of a transposed convolution.
func (c *Call) transposedWindow(kernel []graph.Dim) (window, error) {
	return c.boundedWindow(attr.ReadTransposed(c.Node, kernel))
}

// poolWindow reads the window of a pool or of MaxUnpool.
func (c *Call) poolWindow() (window, error) {
	return c.boundedWindow(attr.ReadPool(c.Node))
}

// boundedWindow fails if the number of elements of the kernel overflows.
func (c *Call) boundedWindow(w *attr.Window, err error) (window, error) {
	if err == nil {
		_, err = c.product(w.Kernel)
	}
	return window{w}, err
}

// extent is attr.Window.Extent of the kernel.
func (w window) extent(i int) graph.Dim {
	return Mono(w.Kernel[i], func(k int64) int64 { return w.Extent(i, k) })
}

// padded is the length of an image of length n with its padding; unknown under
// auto_pad SAME, which pads until the kernel fits.
func (w window) padded(i int, n graph.Dim) graph.Dim {
	if w.Same() {
		return graph.Unknown
	}
	return AddDims(n, graph.Dim(w.Before[i]+w.After[i]))
}

// slide is the number of places at which the kernel stands along axis i of an
// image of length n (attr.Window.Places). If the length of the kernel is not
// exact, it is the bound that a kernel of one element gives.
func (w window) slide(i int, n graph.Dim) graph.Dim {
	extent, exact := w.extent(i), true
	if !w.Same() {
		n = w.padded(i, n)
		if exact = extent.Exact(); !exact {
			extent = 1
		}
	}
	out := Mono(n, func(n int64) int64 { return w.Places(i, n, int64(extent)) })
	if !exact {
		return boundOf(out)
	}
	return out
}

// transposed is the length of axis i of what undoes the window, if its padding is
// stated (attr.Window.TransposedLen). spread is the length of the input times the
// stride. It fails if the padding is larger than the image.
func (c *Call) transposed(w window, i int, spread, extent graph.Dim) (graph.Dim, error) {
	wide := AddDims(spread, extent)
	if wide.Exact() {
		if n := w.TransposedLen(i, int64(wide)); n < 0 {
			return 0, c.Errf("output axis %d would have length %d: the padding is larger than the image", 2+i, n)
		}
	}
	return Mono(wide, func(n int64) int64 { return w.TransposedLen(i, n) }), nil
}

// exactLengths are the lengths of an exact shape.
func exactLengths(shape []graph.Dim) []int64 {
	list := make([]int64, len(shape))
	for i, d := range shape {
		list[i] = int64(d)
	}
	return list
}

// cutRows sets the rows of input x that a copy needs for rows of spatial axis i of a
// convolution or a pool, and the padding of the copy. Each slice has the padding that its
// own windows reach. It returns false if the padding follows from the lengths.
func (c *Call) cutRows(cut *Cut, w window, x, axis, i int) bool {
	if w.Same() || w.Ceil || !w.Kernel[i].Exact() {
		return false
	}
	stride, before, reach, n := w.Stride[i], w.Before[i], w.Reach(i), c.length(x, axis)
	cut.In[x] = Rows{Axis: axis, Length: n, Scale: stride, Divide: 1, Before: before, After: reach - before - stride}
	if before == 0 && w.After[i] == 0 {
		return true
	}
	pads := slices.Concat(w.Before, w.After)
	cut.Change = func(lo, hi int64) Change {
		own := slices.Clone(pads)
		own[i] = max(before-lo*stride, 0)
		own[i+len(own)/2] = max((hi-1)*stride+reach-before-n, 0)
		return Change{Attrs: []*graph.Attr{intsAttr("pads", own)}}
	}
	return true
}
