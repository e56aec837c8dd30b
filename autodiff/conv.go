package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// convRules are the rules of the convolutions.
var convRules = []Rule{
	{Op: "Conv", Grad: convGrad},
	{Op: "ConvTranspose", Grad: convTransposeGrad},
	{Op: "Col2Im", Inputs: []int{0}, Grad: col2ImGrad},
}

// window is the window of a forward node, with all padding explicit and with a
// kernel of exact lengths.
type window struct {
	attr.Window
	group int64
}

// window finishes what attr read. It refuses the node if that failed.
func (c *Backward) window(w *attr.Window, err error) window {
	if err != nil {
		c.Failf("%w", err)
		return window{}
	}
	return window{*w, c.Int("group", 1)}
}

// windowOf is the window of a convolution from the spatial lengths in to out.
func (c *Backward) windowOf(in, out, kernel []int64) window {
	w, err := attr.ReadWindow(c.Node, toDims(kernel))
	if err == nil {
		w.Pad(in, out)
	}
	return c.window(w, err)
}

// poolWindow returns the window of a pool.
func (c *Backward) poolWindow(in, out []int64) window {
	w, err := attr.ReadPool(c.Node)
	if err == nil {
		w.Pad(in, out)
	}
	return c.window(w, err)
}

// transposedWindow returns the window of a transposed convolution: the window of the
// convolution from its output to its input.
func (c *Backward) transposedWindow(in, out, kernel []int64) window {
	w, err := attr.ReadTransposed(c.Node, toDims(kernel))
	if err == nil {
		w.PadTransposed(in, out)
	}
	return c.window(w, err)
}

func toDims(shape []int64) []graph.Dim {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		dims[i] = graph.Dim(n)
	}
	return dims
}

// attrs are the attributes of a Conv or ConvTranspose with this window.
func (w *window) attrs() attrs {
	return attrs{
		"kernel_shape": w.KernelShape(), "strides": w.Stride, "dilations": w.Dilation,
		"pads": concat(w.Before, w.After), "group": w.group,
	}
}

// transposedConv is the transposed convolution that adds each element of d to all elements
// that its window read; in are the spatial lengths of the result.
func (c *Backward) transposedConv(w window, d, weights ID, in []int64) ID {
	a := w.attrs()
	out := c.shape(d)[2:]
	extra := make([]int64, len(in))
	for i := range in {
		extra[i] = in[i] - ((out[i]-1)*w.Stride[i] + w.Reach(i) - w.Before[i] - w.After[i])
	}
	// The elements that no window covers are the last ones. A kernel may add fewer
	// of them than the stride; the others were padding that no window read.
	for i := range extra {
		if extra[i] < 0 {
			c.Failf("window reaches %d beyond its input along axis %d", -extra[i], i)
			return graph.None
		}
	}
	a["output_padding"] = extra
	return c.with("ConvTranspose", a, d, weights)
}

// convGrad: dX is a transposed convolution of d with W. dW is a product if the
// kernel is 1x1, otherwise a convolution of X with d as the kernel, with batch and
// channels exchanged. dB is a sum.
func convGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	k := c.shape(c.X(1))
	if c.err != nil {
		return
	}
	w := c.windowOf(x[2:], y[2:], k[2:])
	if c.err != nil {
		return
	}
	if c.Needs(0) {
		c.Set(0, c.transposedConv(w, c.D(0), c.X(1), x[2:]))
	}
	if c.Needs(1) {
		c.Set(1, c.weightGrad(w, c.X(0), c.D(0), k))
	}
	if c.Needs(2) {
		c.Set(2, c.sum(c.D(0), concat([]int64{0}, axes(2, len(x)-2)), false))
	}
}

// weightGrad is the gradient, of shape k, of the weights of a convolution of x
// with window w; d is the gradient of its result.
func (c *Backward) weightGrad(w window, x, d ID, k []int64) ID {
	xs, ds := c.shape(x), c.shape(d)
	if c.err != nil {
		return graph.None
	}
	if c.fused && len(w.Kernel) <= mostFusedAxes && slices.Min(concat(w.Before, w.After)) >= 0 {
		a := attrs{"kernel_shape": k[2:], "strides": w.Stride, "dilations": w.Dilation, "pads": concat(w.Before, w.After), "group": w.group}
		return c.emitIn(fusedDomain, graph.ConvWeightGrad, a, 1, x, d)[0]
	}
	if w.group == 1 && elements(w.KernelShape()) == 1 && c.within(w, xs[2:], ds[2:]) {
		return c.pointwiseGrad(c.strided(x, w.Stride, ds[2:]), d, k)
	}
	n, g, spatial := xs[0], w.group, len(w.Kernel)
	// The last rows, which no window covers, are removed: from the padding, and if
	// there is too little of it, from x.
	end := make([]int64, spatial)
	var over, ends []int64
	for i := range end {
		left := xs[2+i] + w.Before[i] + w.After[i] - ((ds[2+i]-1)*w.Stride[i] + w.Reach(i))
		if end[i] = w.After[i] - left; end[i] < 0 {
			over, ends = append(over, int64(2+i)), append(ends, xs[2+i]+end[i])
			end[i] = 0
		}
	}
	if over != nil {
		x = c.slice(x, over, filled(0, len(over)), ends)
		xs = c.shape(x)
		if c.err != nil {
			return graph.None
		}
	}
	a := attrs{"kernel_shape": ds[2:], "strides": w.Dilation, "dilations": w.Stride, "pads": concat(w.Before, end)}
	if c.openDims {
		delete(a, "kernel_shape") // which the shape of d says, too
	}
	part := xs[1] / g
	if part == 1 && g > 1 && !c.openDims {
		return c.depthwiseGrad(a, x, d, k)
	}
	if g == 1 {
		x = c.transpose(x, concat([]int64{1, 0}, axes(2, spatial))...)
	} else {
		x = c.reshape(x, concat([]int64{n, g, part}, xs[2:]))
		x = c.transpose(x, concat([]int64{2, 1, 0}, axes(3, spatial))...)
		x = c.reshape(x, concat([]int64{part, g * n}, xs[2:]))
	}
	d = c.transpose(d, concat([]int64{1, 0}, axes(2, spatial))...)
	a["group"] = g
	out := c.with("Conv", a, x, d)
	return c.transpose(out, concat([]int64{1, 0}, axes(2, spatial))...)
}

// depthwiseGrad is the gradient, of shape k, of the weights of a convolution of single
// channels. Each channel of each image of x is a group of its own, with the channels of d
// that were made from it as the kernels, so that nothing is transposed; the results are
// summed over the batch. The number of groups depends on the batch, so it must be known.
func (c *Backward) depthwiseGrad(a attrs, x, d ID, k []int64) ID {
	xs, ds := c.shape(x), c.shape(d)
	if c.err != nil {
		return graph.None
	}
	n, images := xs[0], xs[0]*xs[1]
	a["group"] = images
	x = c.reshape(x, concat([]int64{1, images}, xs[2:]))
	d = c.reshape(d, concat([]int64{n * ds[1], 1}, ds[2:]))
	out := c.reshape(c.with("Conv", a, x, d), concat([]int64{n}, k))
	return c.sum(out, []int64{0}, false)
}

// mostFusedAxes is the largest number of spatial axes for which package vm has a kernel of
// graph.ConvWeightGrad.
const mostFusedAxes = 3

// calls reports whether a node of g, or of a body within it, has that operator of ours.
func calls(g *graph.Graph, op string) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return n.Domain == fusedDomain && n.Op == op || slices.ContainsFunc(n.Bodies(), func(a *graph.Attr) bool {
			return slices.ContainsFunc(a.All(), func(b *graph.Graph) bool { return calls(b, op) })
		})
	})
}

// within reports whether windows of one element read only x, no padding.
func (c *Backward) within(w window, x, y []int64) bool {
	for i := range x {
		if w.Before[i] != 0 || (y[i]-1)*w.Stride[i] >= x[i] || w.Stride[i] > 1 && !c.saves(savingProduct) {
			return false
		}
	}
	return true
}

// strided is the part of x that windows of one element read: out elements along
// each axis.
func (c *Backward) strided(x ID, strides, out []int64) ID {
	shape := c.shape(x)
	if c.err != nil || slices.Equal(shape[2:], out) {
		return x
	}
	ends := make([]int64, len(out))
	for i := range ends {
		ends[i] = (out[i]-1)*strides[i] + 1
	}
	return c.op("Slice", x, c.list(filled(0, len(out))...), c.list(ends...), c.list(axes(2, len(out))...), c.list(strides...))
}

// pointwiseGrad returns the gradient of the weights of a 1x1 kernel: d·Xᵀ, summed over
// the batch. It took a tenth of the convolution's time. If a product for each example
// would take more memory than d, one product computes the sum, over channels moved to
// the front.
func (c *Backward) pointwiseGrad(x, d ID, k []int64) ID {
	xs := c.shape(x)
	if c.err != nil {
		return graph.None
	}
	n, area := xs[0], elements(xs[2:])
	if c.saves(savingProduct) && (n == 1 || k[1] > area) {
		first := func(t ID, channels int64) ID {
			if n > 1 {
				t = c.transpose(c.reshape(t, []int64{n, channels, area}), 1, 0, 2)
			}
			return c.reshape(t, []int64{channels, n * area})
		}
		return c.reshape(c.with("Gemm", attrs{"transB": 1}, first(d, k[0]), first(x, k[1])), k)
	}
	x = c.swapLast(c.reshape(x, []int64{n, k[1], area}))
	p := c.op("MatMul", c.reshape(d, []int64{n, k[0], area}), x)
	return c.reshape(c.sum(p, []int64{0}, false), k)
}

// convTransposeGrad: dX is the convolution of d with W. dW is the weight gradient
// of the convolution whose input is d and whose result has the gradient X.
func convTransposeGrad(c *Backward) {
	x, y, k := c.shape(c.X(0)), c.shape(c.Y(0)), c.shape(c.X(1))
	if c.err != nil {
		return
	}
	w := c.transposedWindow(x[2:], y[2:], k[2:])
	if c.err != nil {
		return
	}
	if c.Needs(0) {
		d := c.with("Conv", w.attrs(), c.cropped(w, c.D(0), x[2:]), c.X(1))
		c.Set(0, d)
	}
	if c.Needs(1) {
		c.Set(1, c.weightGrad(w, c.D(0), c.X(0), k))
	}
	if c.Needs(2) {
		c.Set(2, c.sum(c.D(0), concat([]int64{0}, axes(2, len(x)-2)), false))
	}
}

// cropped removes the last elements of d, which no window reads that makes a result
// of lengths out.
func (c *Backward) cropped(w window, d ID, out []int64) ID {
	shape := c.shape(d)
	var over, ends []int64
	for i := range out {
		read := (out[i]-1)*w.Stride[i] + w.Reach(i) - w.Before[i] - w.After[i]
		if shape[2+i]-read >= w.Stride[i] {
			over, ends = append(over, int64(2+i)), append(ends, read)
		}
	}
	if over == nil {
		return d
	}
	return c.slice(d, over, filled(0, len(over)), ends)
}
