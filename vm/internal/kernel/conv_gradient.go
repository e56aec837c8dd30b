package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// mostWindows is the most outputs of an image that windowConv and depthwiseWeights are
// chosen for.
const mostWindows = 64

// isGradient reports whether a convolution has few outputs under a kernel that changes from
// run to run and is far larger, and nothing to add. The gradient of a convolution's weights
// is one: images and channels are exchanged, and the gradient of the result is the kernel.
func isGradient(c *Invocation, v *window) bool {
	return c.added == nil && c.Then == nil && !c.Has(2) && !c.In[1].Const && v.outputs() <= mostWindows && v.taps() >= 4*v.outputs()
}

// manyWindows reports whether a convolution is the gradient of weights, and large enough to
// fill the vectors of one product.
func manyWindows(c *Invocation, v *window, group int) bool {
	weight := c.In[1]
	return isGradient(c, v) && c.In[0].Shape[0]*v.outputs() >= 16 && weight.Shape[0]/group >= 8 && weight.Shape[1] > 0
}

// windowConv computes a convolution with few outputs for each image. Each group is one
// product: of the windows of all images, as rows, with the kernels, as columns. The sums
// of a tile are transposed to where they belong.
func windowConv(c *Invocation, v *window, group int) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	images, m, ch, outputs := x.Shape[0], weight.Shape[0]/group, weight.Shape[1], v.outputs()
	depth := ch * v.taps()
	type side struct {
		rows    gemm.Windows
		columns gemm.Dense
	}
	sides, list := tableOf[side](c, group), tableOf[gemm.Product](c, group)
	for i := range list {
		s := &sides[i]
		s.rows = gemm.Windows{Rows: images * outputs, Step: ch * group * v.inputs(), In: v.in, Out: v.out, Kernel: v.kernel, Stride: v.stride, Dilation: v.dil, Pad: v.pads}
		s.columns = gemm.Dense{Len: m, Step: depth, Deep: 1}
		list[i] = gemm.Product{M: images * outputs, N: m, K: depth, A: &s.rows, B: &s.columns, Alpha: 1, Stride: m, Stop: c.Runtime}
	}
	each, block := c.Each(list[0].ScratchBytes()), c.Each(4*list[0].BlockLen())
	tiles := list[0].Tiles()
	var pool *work.Pool
	part := func(part, worker int) {
		g, tile := part/tiles, part%tiles
		p := &list[g]
		row, column, rows, columns := p.Block(tile)
		sums := pool.Each(worker, block)
		p.TileAt(tile, sums, columns, nil, pool.Each(worker, each))
		for r := 0; r < rows; {
			image, place := (row+r)/outputs, (row+r)%outputs
			n := min(outputs-place, rows-r)
			to := (*float32)(element[float32](out, ((image*group+g)*m+column)*outputs+place))
			simd.Transpose(to, (*float32)(unsafe.Add(sums, 4*r*columns)), outputs, columns, n, columns)
			c.poll()
			r += n
		}
	}
	return func(w *work.Pool) error {
		pool = w
		for g := range sides {
			sides[g].rows.At = element[float32](x, g*ch*v.inputs())
			sides[g].columns.At = element[float32](weight, g*m*depth)
		}
		w.For(group*tiles, part)
		return nil
	}, nil
}

// depthwiseWeights makes the kernel of the gradient of a depthwise convolution's weights, or
// nil if this convolution is none. Its window is that of the depthwise convolution, with
// kernel and outputs, strides and dilations exchanged.
func depthwiseWeights(c *Invocation, v *window) Run {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	d := &gemm.Depthwise{In: v.in, Out: v.kernel, Kernel: v.out, Stride: v.dil, Dilation: v.stride, Pad: v.pads, Stop: c.Runtime}
	if !isGradient(c, v) || d.WeightsBytes() == 0 {
		return nil
	}
	channels, each := weight.Shape[0], c.Each(d.WeightsBytes())
	var pool *work.Pool
	part := func(i, worker int) {
		d.Weights(element[float32](out, i*v.outputs()), element[float32](x, i*v.inputs()), element[float32](weight, i%channels*v.taps()), pool.Each(worker, each))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*channels, part)
		return nil
	}
}
