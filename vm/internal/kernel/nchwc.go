package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blockedImages lists ONNX Runtime's operators on images whose channels are divided into
// blocks (attr.Nchwc). They run as the operators of ONNX do, between two copies.
var blockedImages = family{attr.Nchwc, []Kernel{
	{Name: "ReorderInput", Make: makeReorderInput},
	{Name: "ReorderOutput", Make: makeReorderOutput},
	{Name: "Conv", Make: makeBlockedConv},
	{Name: "MaxPool", Make: blocked(makeMaxPool)},
	{Name: "AveragePool", Make: blocked(makeAveragePool)},
	{Name: "GlobalMaxPool", Make: blocked(global(largest))},
	{Name: "GlobalAveragePool", Make: blocked(makeGlobalAveragePool)},
	{Name: "Upsample", Make: blocked(makeBlockedUpsample)},
}}

// ChannelBlock returns the number of channels in a block: that of the graph or, if it
// does not tell, that of ONNX Runtime on this machine.
func (c *Invocation) ChannelBlock() int {
	if c.Block != 0 {
		return c.Block
	}
	if slices.Contains(gemm.Levels(), "avx512") {
		return 16
	}
	return 8
}

// blocking moves an image between the layout in blocks and that in planes, or, with
// channels last, in pixels. The blocks hold padded channels; the image has channels.
type blocking struct {
	block, images, channels, padded, pixels int
	last                                    bool
}

// blockingOf returns the blocking of a tensor in blocks.
func (c *Invocation) blockingOf(t *Tensor) (*blocking, error) {
	b := &blocking{block: c.ChannelBlock(), images: t.Shape[0], channels: t.Shape[1], padded: t.Shape[1], pixels: count(t.Shape[2:])}
	if t.Type != graph.Float32 {
		return nil, unsupported(t.Type)
	}
	if b.padded%b.block != 0 {
		return nil, unsupportedf("%d channels in blocks of %d", b.padded, b.block)
	}
	return b, nil
}

// run makes a Run that moves all elements. into says that to is in blocks: what has no
// counterpart in the image becomes 0.
func (b *blocking) run(c *Invocation, to, from *Tensor, into bool) Run {
	pixelStep, channelStep := 1, b.pixels
	if b.last {
		pixelStep, channelStep = b.channels, 1
	}
	part := func(p, _ int) {
		image, first := p/(b.padded/b.block), p%(b.padded/b.block)*b.block
		n := max(0, min(b.block, b.channels-first))
		at := image*b.channels*b.pixels + first*channelStep
		plain, whole := from, to
		if !into {
			plain, whole = to, from
		}
		blocks := span[float32](element[float32](whole, (image*b.padded+first)*b.pixels), b.block*b.pixels)
		m := meter{c: c}
		for i := range b.pixels {
			m.add(b.block)
			row := blocks[i*b.block:][:b.block]
			if n == 0 {
				clear(row)
				continue
			}
			pixel := span[float32](element[float32](plain, at+i*pixelStep), (n-1)*channelStep+1)
			if !into {
				for k := range n {
					pixel[k*channelStep] = row[k]
				}
				continue
			}
			for k := range n {
				row[k] = pixel[k*channelStep]
			}
			clear(row[n:])
		}
	}
	return func(w *work.Pool) error {
		w.For(b.images*(b.padded/b.block), part)
		return nil
	}
}

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

// planes returns a tensor in scratch that has the shape of t, which is in blocks, in
// planes.
func (c *Invocation) planes(t *Tensor) (*Tensor, int) {
	p := &Tensor{Type: t.Type, Shape: t.Shape}
	return p, c.Shared(p.Bytes())
}

// blocked makes the kernel of an operator on planes whose image is in blocks.
func blocked(inPlanes func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		enter, err := c.blockingOf(c.In[0])
		if err != nil {
			return nil, err
		}
		leave, err := c.blockingOf(c.Out[0])
		if err != nil {
			return nil, err
		}
		x, offX := c.planes(c.In[0])
		y, offY := c.planes(c.Out[0])
		inner := *c
		inner.In, inner.Out = []*Tensor{x}, []*Tensor{y}
		run, err := inPlanes(&inner)
		if err != nil {
			return nil, err
		}
		c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
		steps := []Run{enter.run(c, x, c.In[0], false), run, leave.run(c, c.Out[0], y, true)}
		return func(w *work.Pool) error {
			x.At, y.At = w.Shared(offX), w.Shared(offY)
			for _, step := range steps {
				if err := step(w); err != nil {
					return err
				}
			}
			return nil
		}, nil
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
	image, weight, out := c.In[0], c.In[1], c.Out[0]
	leave, err := c.blockingOf(out)
	if err != nil {
		return nil, err
	}
	block, group := leave.block, c.Int("group", 1)
	m, ch, taps := weight.Shape[0], weight.Shape[1], count(weight.Shape[2:])
	whole := ch%block == 0 && m/group%block == 0
	if single := group == 1 && ch < block || ch == 1 && m == group; m%block != 0 || !whole && !single {
		return nil, unsupportedf("weights of shape %v in blocks of %d", weight.Shape, block)
	}
	finish, err := c.ListedActivation().finish()
	if err != nil {
		return nil, err
	}
	inner := *c
	var before []Run
	x, offX := image, 0
	if image.Shape[1] >= block || group > 1 {
		enter, err := c.blockingOf(image)
		if err != nil {
			return nil, err
		}
		x, offX = inner.planes(image)
		before = append(before, enter.run(c, x, image, false))
	}
	y, offY := inner.planes(out)
	sums := y
	offSums := 0
	if c.Has(3) {
		sums, offSums = inner.planes(out)
	}
	w := &Tensor{Type: weight.Type, Shape: weight.Shape}
	order := orderWeights(block, m, ch, taps)
	offW := 0
	if weight.Const && weight.Made == nil { // else its address may change
		at, err := c.Runtime.Table(int64(weight.Bytes()))
		if err != nil {
			return nil, err
		}
		w.At, w.Const, w.Made = at, true, orderedWeights{weight.At, block}
		order(c, w, weight)
	} else {
		offW = inner.Shared(w.Bytes())
		before = append(before, func(*work.Pool) error {
			order(c, w, weight)
			return nil
		})
	}
	inner.In, inner.Out = []*Tensor{x, w, c.in(2)}, []*Tensor{y}
	if inner.In[2] == nil {
		inner.In = inner.In[:2]
	}
	inner.Packed, inner.Then, inner.Taken = nil, nil, false
	if !c.Has(3) {
		inner.Then = finish
	}
	conv, err := makeConv(&inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
	arrange := leave.run(c, out, y, true)
	if c.Has(3) {
		arrange = leave.run(c, sums, y, true)
	}
	d := func(t *Tensor) []float32 { return data[float32](t) }
	part := func(p, _ int) {
		from := p * grain
		to := min(from+grain, out.Len())
		if c.Has(3) {
			simd.Add(d(out)[from:to], d(sums)[from:to], d(c.In[3])[from:to])
		}
		if finish != nil && !inner.Taken {
			finish.Row(d(out)[from:to])
		}
	}
	return func(p *work.Pool) error {
		if x != image {
			x.At = p.Shared(offX)
		}
		y.At = p.Shared(offY)
		if sums != y {
			sums.At = p.Shared(offSums)
		}
		if !w.Const {
			w.At = p.Shared(offW)
		}
		for _, step := range before {
			if err := step(p); err != nil {
				return err
			}
		}
		if err := conv(p); err != nil {
			return err
		}
		if err := arrange(p); err != nil {
			return err
		}
		if c.Has(3) || finish != nil && !inner.Taken {
			p.For(cuts(out.Len(), grain), part)
		}
		return nil
	}, nil
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
		meter := meter{c: c}
		for o := range m {
			meter.add(ch * taps)
			for i := range ch {
				for t := range taps {
					at := (((o/block*(ch/inner)+i/inner)*taps+t)*inner+i%inner)*block + o%block
					d[(o*ch+i)*taps+t] = s[at]
				}
			}
		}
	}
}
