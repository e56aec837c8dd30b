package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blockedImages lists ONNX Runtime's operators on images in NCHWc, whose channels are divided
// into blocks (attr.Nchwc). They run as the operators of ONNX do, on images in NCHW. A
// session holds most images in NCHW all the time (form.NCHW); the others are copied.
var blockedImages = family{attr.Nchwc, []Kernel{
	{Name: "ReorderInput", Make: makeReorderInput},
	{Name: "ReorderOutput", Make: makeReorderOutput},
	{Name: "Conv", Make: makeBlockedConv},
	{Name: "MaxPool", Make: blocked(makeMaxPool)},
	{Name: "AveragePool", Make: blocked(makeAveragePool)},
	{Name: "GlobalMaxPool", Make: blocked(makeGlobalMaxPool)},
	{Name: "GlobalAveragePool", Make: blocked(makeGlobalAveragePool)},
	{Name: "Upsample", Make: blocked(makeBlockedUpsample)},
}}

// ChannelBlock returns the number of channels in a block: that of the graph or, if it
// does not tell, that of ONNX Runtime on this machine.
func (c *Invocation) ChannelBlock() int {
	if c.Block != 0 {
		return int(c.Block)
	}
	if slices.Contains(gemm.Levels(), "avx512") {
		return 16
	}
	return 8
}

// blocking moves an image between NCHWc, which operators on blocks see, and NCHW or, with
// channels last, NHWC. The first layout has padded channels, the second channels.
type blocking struct {
	block, images, channels, padded, pixels int
	last, planes                            bool // planes: the first layout has planes, too (form.NCHW)
}

// blockingOf returns the blocking of a tensor in blocks.
func (c *Invocation) blockingOf(t *Tensor) (*blocking, error) {
	b := &blocking{block: c.ChannelBlock(), images: t.Shape[0], channels: t.Shape[1], padded: t.Shape[1], pixels: count(t.Shape[2:]), planes: t.Layout == form.NCHW}
	if t.Type != graph.Float32 {
		return nil, unsupported(t.Type)
	}
	if b.padded%b.block != 0 {
		return nil, unsupportedf("%d channels in blocks of %d", b.padded, b.block)
	}
	return b, nil
}

// run makes a Run that moves all elements. into says that to has the layout of operators on
// blocks: what has no counterpart in the image becomes 0.
func (b *blocking) run(c *Invocation, to, from *Tensor, into bool) Run {
	blocks, plain := spacing{b.block, 1}, spacing{1, b.pixels}
	if b.planes {
		blocks = spacing{1, b.pixels}
	}
	if b.last {
		plain = spacing{b.channels, 1}
	}
	part := func(p, _ int) {
		image, first := p/(b.padded/b.block), p%(b.padded/b.block)*b.block
		n := max(0, min(b.block, b.channels-first))
		dst, src := blocks, plain
		dstAt, srcAt := (image*b.padded+first)*b.pixels, image*b.channels*b.pixels+first*plain.channel
		m := c.Meter()
		if into && n < b.block {
			m.Add(b.block * b.pixels)
			clear(span[float32](element[float32](to, dstAt), b.block*b.pixels))
		}
		if n == 0 || b.pixels == 0 {
			return
		}
		if !into {
			dst, src, dstAt, srcAt = src, dst, srcAt, dstAt
		}
		d, s := span[float32](element[float32](to, dstAt), dst.reach(n, b.pixels)), span[float32](element[float32](from, srcAt), src.reach(n, b.pixels))
		if b.planes && !b.last {
			for at, end := range c.Pieces(len(d)) {
				copy(d[at:end], s[at:end])
			}
			return
		}
		for k := range n {
			m.Add(b.pixels)
			d, s := d[k*dst.channel:], s[k*src.channel:]
			for i := range b.pixels {
				d[i*dst.pixel] = s[i*src.pixel]
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(b.images*(b.padded/b.block), part)
		return nil
	}
}

// spacing says how far apart neighbouring pixels and channels of an image are, in elements.
type spacing struct{ pixel, channel int }

// reach is the number of elements from the first pixel of n channels to the last.
func (s spacing) reach(n, pixels int) int { return (n-1)*s.channel + (pixels-1)*s.pixel + 1 }

func makeReorderInput(c *Invocation) (Run, error) {
	b, err := c.blockingOf(c.Out[0])
	if err != nil {
		return nil, err
	}
	b.last = c.Int("channels_last", 0) != 0
	b.channels = c.In[0].Shape[1]
	if b.last {
		b.channels = c.In[0].Shape[3]
	}
	if b.padded < b.channels || b.padded-b.channels >= b.block {
		return nil, unsupportedf("%d channels of %d in blocks of %d", b.channels, b.padded, b.block)
	}
	return b.run(c, c.Out[0], c.In[0], true), nil
}

func makeReorderOutput(c *Invocation) (Run, error) {
	b, err := c.blockingOf(c.In[0])
	if err != nil {
		return nil, err
	}
	b.last, b.channels = c.Int("channels_last", 0) != 0, c.Int("channels", 0)
	if b.padded < b.channels || b.padded-b.channels >= b.block {
		return nil, unsupportedf("%d channels of %d in blocks of %d", b.channels, b.padded, b.block)
	}
	return b.run(c, c.Out[0], c.In[0], false), nil
}

// staged is an image in NCHW: a tensor that is held so, or a copy in scratch of one in NCHWc.
type staged struct {
	*Tensor
	off  int // of the scratch
	move Run // from the tensor or to it; nil: the image is the tensor
}

// staged returns the planes of t, an input or output of an operator on blocks.
func (c *Invocation) staged(t *Tensor) (*staged, error) {
	b, err := c.blockingOf(t)
	if err != nil || b.planes {
		return &staged{Tensor: t}, err
	}
	s := &staged{Tensor: &Tensor{Type: t.Type, Shape: t.Shape}}
	s.off = c.Shared(s.Bytes())
	if slices.Contains(c.Out, t) {
		s.move = b.run(c, t, s.Tensor, true)
	} else {
		s.move = b.run(c, s.Tensor, t, false)
	}
	return s, nil
}

// around makes a Run of run, which reads the images of in and writes out.
func (out *staged) around(run Run, in ...*staged) Run {
	return func(w *work.Pool) error {
		for _, s := range in {
			if s.move == nil {
				continue
			}
			s.At = w.Shared(s.off)
			if err := s.move(w); err != nil {
				return err
			}
		}
		if out.move == nil {
			return run(w)
		}
		out.At = w.Shared(out.off)
		if err := run(w); err != nil {
			return err
		}
		return out.move(w)
	}
}

// blocked makes the kernel of an operator on planes whose image is in blocks.
func blocked(inPlanes func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		inner := *c
		x, err := inner.staged(c.In[0])
		if err != nil {
			return nil, err
		}
		y, err := inner.staged(c.Out[0])
		if err != nil {
			return nil, err
		}
		inner.In, inner.Out = []*Tensor{x.Tensor}, []*Tensor{y.Tensor}
		run, err := inPlanes(&inner)
		c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
		return y.around(run, x), err
	}
}

// makeBlockedUpsample is Resize by whole factors.
func makeBlockedUpsample(c *Invocation) (Run, error) {
	scales := make([]float32, 4)
	for i, s := range c.Ints("scales") {
		scales[i] = float32(s)
	}
	inner := *c
	inner.Version = 13
	inner.Node = &graph.Node{Op: "Resize", Attrs: []*graph.Attr{
		{Name: "mode", Type: graph.AttrString, String: c.Str("mode", "nearest")},
		{Name: "nearest_mode", Type: graph.AttrString, String: "floor"},
		{Name: "coordinate_transformation_mode", Type: graph.AttrString, String: c.Str("coordinate_transformation_mode", "asymmetric")},
	}}
	inner.In = []*Tensor{c.In[0], nil, {Type: graph.Float32, Shape: []int{4}, At: unsafe.Pointer(&scales[0]), Const: true}}
	run, err := makeResize(&inner)
	c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
	return run, err
}

// orderedWeights identifies constant weights in the order of ONNX.
type orderedWeights struct {
	at    unsafe.Pointer
	block int
}

// makeBlockedConv is FusedConv. The image is in blocks unless it has fewer channels than
// a block in a single group. The weights [M, C/group, taps] are stored as [M/b, C/group/b,
// taps, b, b], or, if a group has fewer channels than a block, as [M/b, C/group, taps, b].
func makeBlockedConv(c *Invocation) (Run, error) {
	image, weight := c.In[0], c.In[1]
	block, group := c.ChannelBlock(), c.Int("group", 1)
	m, ch := weight.Shape[0], weight.Shape[1]
	whole := ch%block == 0 && m/group%block == 0
	if single := group == 1 && ch < block || ch == 1 && m == group; m%block != 0 || !whole && !single {
		return nil, unsupportedf("weights of shape %v in blocks of %d", weight.Shape, block)
	}
	inner := *c
	y, err := inner.staged(c.Out[0])
	if err != nil {
		return nil, err
	}
	x := &staged{Tensor: image}
	if image.Shape[1] >= block || group > 1 {
		if x, err = inner.staged(image); err != nil {
			return nil, err
		}
	}
	in := []*staged{x}
	if c.Has(3) {
		added, err := inner.staged(c.In[3])
		if err != nil {
			return nil, err
		}
		inner.added, in = added.Tensor, append(in, added)
	}
	w, err := inner.orderedWeights(block)
	if err != nil {
		return nil, err
	}
	in = append(in, w)
	inner.In, inner.Out = []*Tensor{x.Tensor, w.Tensor, c.Input(2)}, []*Tensor{y.Tensor}
	if inner.In[2] == nil {
		inner.In = inner.In[:2]
	}
	inner.Packed = nil
	outer := inner
	run, err := activated(&outer, &inner, makeConv, c.ListedActivation())
	c.SharedBytes, c.EachBytes = outer.SharedBytes, outer.EachBytes
	return y.around(run, in...), err
}

// orderedWeights returns the weights of a convolution in the order of ONNX: once and for
// all if they are constant, else in scratch at each run.
func (c *Invocation) orderedWeights(block int) (*staged, error) {
	weight := c.In[1]
	w := &staged{Tensor: &Tensor{Type: weight.Type, Shape: weight.Shape, Computed: weight.Fixed()}}
	order := orderWeights(block, weight.Shape[0], weight.Shape[1], count(weight.Shape[2:]))
	if weight.Const && weight.Made == nil { // else its address may change
		at, err := c.Runtime.Table(int64(weight.Bytes()))
		if err != nil {
			return nil, err
		}
		w.At, w.Const, w.Made = at, true, orderedWeights{weight.At, block}
		order(c, w.Tensor, weight)
		return w, nil
	}
	w.off = c.Shared(w.Bytes())
	w.move = func(*work.Pool) error {
		order(c, w.Tensor, weight)
		return nil
	}
	return w, nil
}

// orderWeights returns a function that puts the weights [m, ch, taps] of a convolution
// into the order of ONNX.
func orderWeights(block, m, ch, taps int) func(c *Invocation, to, from *Tensor) {
	inner := 1 // channels of the image in a block of the weights
	if ch >= block {
		inner = block
	}
	return func(c *Invocation, to, from *Tensor) {
		d, s := data[float32](to), data[float32](from)
		meter := c.Meter()
		for o := range m {
			meter.Add(ch * taps)
			for i := range ch {
				for t := range taps {
					at := (((o/block*(ch/inner)+i/inner)*taps+t)*inner+i%inner)*block + o%block
					d[(o*ch+i)*taps+t] = s[at]
				}
			}
		}
	}
}
