package reference

import "github.com/onnxmem/onnxmem/graph"

// nchwcOperators are ONNX Runtime's operators on images in NCHWc: a tensor of shape [N, C, H,
// W] is stored as [N, C/b, H, W, b]. They are computed in NCHW.
var nchwcOperators = []operator{
	{"ReorderInput", func(c *evaluation) []*Tensor {
		x := c.x(0)
		if c.int("channels_last", 0) != 0 {
			x = x.permuted(0, 3, 1, 2)
		}
		b := c.channelBlock()
		padded := (x.Shape[1] + b - 1) / b * b
		y := x.moved([]int{x.Shape[0], padded, x.Shape[2], x.Shape[3]}, func(at, from []int) bool {
			copy(from, at)
			return at[1] < x.Shape[1]
		})
		*c.bounded(0) = bound{exact: true}
		return one(y.pick(y.Shape, c.blocks(y.Shape)))
	}},
	{"ReorderOutput", func(c *evaluation) []*Tensor {
		x := c.inPlanes(c.x(0))
		y := x.moved([]int{x.Shape[0], c.int("channels", 0), x.Shape[2], x.Shape[3]}, func(at, from []int) bool {
			copy(from, at)
			return true
		})
		if c.int("channels_last", 0) != 0 {
			y = y.permuted(0, 2, 3, 1)
		}
		*c.bounded(0) = bound{exact: true}
		return one(y)
	}},
	{"Conv", func(c *evaluation) []*Tensor {
		in := []*Tensor{c.x(0), c.weightsInPlanes(), c.x(2), nil}
		if b := c.channelBlock(); in[0].Shape[1] >= b || c.int("group", 1) > 1 {
			in[0] = c.inPlanes(in[0])
		}
		if c.x(3) != nil {
			in[3] = c.inPlanes(c.x(3))
		}
		return c.likePlain(key{"com.microsoft", "FusedConv"}, c.version, c.Attrs, in)
	}},
	{"MaxPool", blockedAs("MaxPool")},
	{"AveragePool", blockedAs("AveragePool")},
	{"GlobalMaxPool", blockedAs("GlobalMaxPool")},
	{"GlobalAveragePool", blockedAs("GlobalAveragePool")},
	{"Upsample", func(c *evaluation) []*Tensor {
		scales := zeros(graph.Float32, []int{4})
		for i, v := range c.ints("scales", nil) {
			scales.F[i] = float64(v)
		}
		attrs := []*graph.Attr{
			{Name: "mode", Type: graph.AttrString, String: c.str("mode", "nearest")},
			{Name: "nearest_mode", Type: graph.AttrString, String: "floor"},
			{Name: "coordinate_transformation_mode", Type: graph.AttrString, String: c.str("coordinate_transformation_mode", "asymmetric")},
		}
		return c.likePlain(key{"", "Resize"}, 13, attrs, []*Tensor{c.inPlanes(c.x(0)), nil, scales})
	}},
}

// blockedAs computes a node as the operator of ai.onnx of that name.
func blockedAs(op string) func(c *evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		return c.likePlain(key{"", op}, 11, c.Attrs, []*Tensor{c.inPlanes(c.x(0))})
	}
}

// likePlain computes an operator on images in NCHW, and divides the channels of its result,
// and of the bounds of that, into blocks.
func (c *evaluation) likePlain(op key, version int64, attrs []*graph.Attr, in []*Tensor) []*Tensor {
	inner := &evaluation{
		Node:    &graph.Node{Domain: op.domain, Op: op.name, Attrs: attrs, Outputs: []graph.TensorID{0}},
		version: version, scope: c.scope, in: in, outputs: 1, alone: c.alone,
	}
	y := table[op].eval(inner)[0]
	from := c.blocks(y.Shape)
	b := *inner.bounded(0)
	*c.bounded(0) = bound{mass: arranged(b.mass, from), near: arranged(b.near, from), open: arranged(b.open, from), exact: b.exact || exact[op] && b.mass == nil}
	return one(y.pick(y.Shape, from))
}

// arranged returns a list in another order; nil for nil.
func arranged[T any](list []T, from []int) []T {
	if list == nil {
		return nil
	}
	to := make([]T, len(from))
	for i, at := range from {
		to[i] = list[at]
	}
	return to
}

// Blocks returns the image in NCHWc from the same image in NCHW. Its shape must have four
// axes and whole blocks.
func (l Layout) Blocks(x *Tensor) *Tensor {
	return x.pick(x.Shape, (&evaluation{block: l.Block}).blocks(x.Shape))
}

// Planes returns the image in NCHW from the same image in NCHWc, of which the last block of
// channels may be smaller than the others.
func (l Layout) Planes(x *Tensor) *Tensor {
	channels, pixels := x.Shape[1], size(x.Shape[2:])
	from := make([]int, size(x.Shape))
	at := 0
	for image := range x.Shape[0] {
		for first := 0; first < channels; first += l.Block {
			lanes := min(l.Block, channels-first)
			for i := range lanes * pixels {
				from[(image*channels+first+i%lanes)*pixels+i/lanes] = at
				at++
			}
		}
	}
	return x.pick(x.Shape, from)
}

// channelBlock returns the number of channels in a block.
func (c *evaluation) channelBlock() int {
	if c.block <= 0 {
		fail("the number of channels in a block is not known")
	}
	return c.block
}

// blocks returns, for each element of an image of that shape in blocks, its index in
// planes.
func (c *evaluation) blocks(shape []int) []int {
	b := c.channelBlock()
	if len(shape) != 4 || shape[1]%b != 0 {
		fail("shape %v, expected four axes and blocks of %d channels", shape, b)
	}
	from := make([]int, 0, size(shape))
	each([]int{shape[0], shape[1] / b, shape[2], shape[3], b}, func(at []int) {
		from = append(from, index(shape, []int{at[0], at[1]*b + at[4], at[2], at[3]}))
	})
	return from
}

// inPlanes returns an image in NCHWc as NCHW.
func (c *evaluation) inPlanes(x *Tensor) *Tensor {
	y := zeros(x.Type, x.Shape)
	for i, at := range c.blocks(x.Shape) {
		y.copy(at, x, i)
	}
	return y
}

// weightsInPlanes returns the weights of a convolution as ONNX stores them. They lie as
// [M/b, C/b, H, W, b, b], the channels of the image before those of the result, or, if a
// group has fewer channels than a block, as [M/b, C, H, W, b].
func (c *evaluation) weightsInPlanes() *Tensor {
	w, b := c.x(1), c.channelBlock()
	if len(w.Shape) != 4 || w.Shape[0]%b != 0 || w.Shape[1] >= b && w.Shape[1]%b != 0 {
		fail("weights of shape %v, expected blocks of %d channels", w.Shape, b)
	}
	inner := 1
	if w.Shape[1] >= b {
		inner = b
	}
	y, i := zeros(w.Type, w.Shape), 0
	each([]int{w.Shape[0] / b, w.Shape[1] / inner, w.Shape[2], w.Shape[3], inner, b}, func(at []int) {
		y.copy(index(w.Shape, []int{at[0]*b + at[5], at[1]*inner + at[4], at[2], at[3]}), w, i)
		i++
	})
	return y
}
