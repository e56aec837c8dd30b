package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// col2ImGrad: Col2Im adds blocks into an image, so its gradient cuts them out. A
// convolution of each channel with one kernel for each element of the block, 1 there and 0
// elsewhere, does that.
func col2ImGrad(c *Backward) {
	x, image, block := c.shape(c.X(0)), c.shape(c.D(0)), c.Lengths(2)
	if c.err != nil {
		return
	}
	r, err := attr.ReadWindow(c.Node, toDims(block))
	w := c.window(r, err)
	if c.err != nil {
		return
	}
	size := elements(block)
	if exceeds(1<<13, block...) {
		c.Failf("a block of shape %v: expected at most %d elements, since its gradient takes a kernel for each of them", block, 1<<13)
		return
	}
	unit := c.with("EyeLike", attrs{"dtype": c.typeOf(c.D(0)).Elem}, c.zeros(c.D(0), size, size))
	kernels := c.reshape(unit, concat([]int64{size, 1}, block))
	a := w.attrs()
	a["group"] = 1
	a["kernel_shape"] = block
	t := c.with("Conv", a, c.reshape(c.D(0), concat([]int64{image[0] * image[1], 1}, image[2:])), kernels)
	c.Set(0, c.reshape(t, x))
}

// deformConvExpansion: the image is sampled at the places that each element of the kernel
// reads, moved by the offsets, and the samples are multiplied by the weights. GridSample
// with padding by zeros reads as DeformConv does, and has a gradient with respect to image
// and places.
func deformConvExpansion(c *Backward) []ID {
	x, weights, y := c.shape(c.X(0)), c.shape(c.X(1)), c.shape(c.Node.Outputs[0])
	if c.err != nil {
		return nil
	}
	n := len(x) - 2
	if n != 2 && (n != 3 || c.version < 20) {
		c.Failf("a deformable convolution over %d axes: expected 2, or 3 from opset 20 on, on a path to the loss", n)
		return nil
	}
	w := c.windowOf(x[2:], y[2:], weights[2:])
	if c.err != nil {
		return nil
	}
	batch, kernel, places := x[0], elements(weights[2:]), elements(y[2:])
	parts := c.Int("offset_group", 1)
	if parts < 1 || w.group < 1 || x[1]%parts != 0 || x[1]%w.group != 0 {
		c.Failf("offset_group is %d and group %d: expected divisors of %d channels", parts, w.group, x[1])
		return nil
	}
	// The offsets are [batch, group of offsets, element of the kernel, axis, place].
	offsets := c.split(c.reshape(c.X(2), []int64{batch * parts, kernel, int64(n), places}), 2, filled(1, n)...)
	coordinates := make([]ID, n)
	for a := range n {
		t := c.reshape(offsets[a], concat([]int64{batch * parts}, weights[2:], y[2:]))
		for half, list := range [][]int64{weights[2:], y[2:]} {
			steps, first := w.Dilation[a], -w.Before[a]
			if half == 1 {
				steps, first = w.Stride[a], 0
			}
			at := make([]float64, list[a])
			for i := range at {
				at[i] = float64(int64(i)*steps + first)
			}
			shape := filled(1, 2*n+1)
			shape[1+half*n+a] = list[a]
			t = c.add(t, c.reals(c.typeOf(t).Elem, shape, at))
		}
		// -1 and 1 are the borders of the image.
		size := float64(x[2+a])
		t = c.plus(c.times(t, 2/size), 1/size-1)
		coordinates[n-1-a] = c.reshape(t, []int64{batch * parts, kernel * places, 1})
	}
	grid := concat([]int64{batch * parts, kernel, places}, []int64{int64(n)})
	if n == 3 {
		grid = []int64{batch * parts, kernel, places, 1, 3}
	}
	mode := "bilinear"
	if c.version >= 20 {
		mode = "linear"
	}
	image := c.reshape(c.X(0), concat([]int64{batch * parts, x[1] / parts}, x[2:]))
	t := c.with("GridSample", attrs{"mode": mode, "padding_mode": "zeros"}, image, c.reshape(c.joined(coordinates, 2), grid))
	if c.present(c.X(4)) {
		t = c.reshape(t, []int64{batch * parts, x[1] / parts, kernel, places})
		t = c.mul(t, c.reshape(c.X(4), []int64{batch * parts, 1, kernel, places}))
	}
	columns := c.reshape(t, []int64{batch, w.group, x[1] / w.group * kernel, places})
	rows := c.reshape(c.X(1), []int64{w.group, weights[0] / w.group, weights[1] * kernel})
	out := c.reshape(c.op("MatMul", rows, columns), y)
	if c.present(c.X(3)) {
		out = c.add(out, c.reshape(c.X(3), concat([]int64{weights[0]}, filled(1, n))))
	}
	return []ID{out}
}

// convExpansions are convolutions that are expanded before differentiation.
var convExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"DeformConv":          deformConvExpansion,
	"CausalConvWithState": causalConvExpansion,
})

// causalConvExpansion: the state stands before the input, and each channel is convolved by
// itself. The last elements are the next state. The form of com.microsoft has a dilation
// and may have the channels last.
func causalConvExpansion(c *Backward) []ID {
	x, k, last := c.X(0), c.shape(c.X(1)), c.Int("channels_last", 0) != 0
	if c.err != nil {
		return nil
	}
	if c.rank(x) != 3 || c.Int("state_window", 0) > 1 {
		c.Failf("an input of shape %v, state_window %d: expected three axes and one state on a path to the loss", c.shape(x), c.Int("state_window", 0))
		return nil
	}
	past := c.X(3)
	turned := func(t ID) ID {
		if last {
			return c.transpose(t, 0, 2, 1)
		}
		return t
	}
	x = turned(x)
	shape := c.shape(x)
	dilation := c.Int("dilation", 1)
	if len(k) != 3 || k[0] != shape[1] || k[1] != 1 || k[2] < 1 || dilation < 1 {
		c.Failf("weights of shape %v and a dilation of %d: expected [%d 1 k], and at least 1", k, dilation, shape[1])
		return nil
	}
	if exceeds(1<<30, k[2]-1, dilation) {
		c.Failf("a kernel of %d with a dilation of %d: expected a state of at most %d places", k[2], dilation, 1<<30)
		return nil
	}
	before := (k[2] - 1) * dilation
	whole := x
	if before > 0 {
		state := ID(graph.None)
		if c.present(past) {
			state = turned(past)
		} else {
			state = c.zeros(x, shape[0], shape[1], before)
		}
		whole = c.joined([]ID{state, x}, 2)
	}
	y := c.with("Conv", attrs{"group": shape[1], "dilations": []int64{dilation}, "kernel_shape": k[2:]}, whole, c.X(1), c.X(2))
	switch name := c.Str("activation", "none"); name {
	case "none", "":
	case "silu", "swish":
		y = c.silu(y)
	default:
		c.Failf("activation %q: expected none, silu or swish", name)
	}
	present := ID(graph.None)
	if len(c.Node.Outputs) > 1 && c.Node.Outputs[1] != graph.None {
		present = turned(c.slice(whole, []int64{2}, []int64{shape[2]}, []int64{shape[2] + before}))
	}
	return []ID{turned(y), present}
}
