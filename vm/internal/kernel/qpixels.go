package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A convolution of 8-bit integers in NHWC is a product with a row for each pixel of the
// output: it reads and writes whole pixels. ONNX Runtime saves such convolutions at level
// ALL.

// pixelsWindow returns the window of a convolution in NHWC, and whether its channels are
// single; nil if makePixelsConv cannot compute it.
func pixelsWindow(c *Invocation) (v *form.Window, image gemm.Image, single bool, err error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	rank := x.Rank()
	group := c.Int("group", 1)
	single = weight.Shape[1] == 1 && weight.Shape[0] == group && x.Shape[rank-1] == group
	if group != 1 && !single || !weight.Const || c.Has(5) && !c.In[5].Const || out.Len() == 0 || weight.Len() == 0 {
		return nil, image, single, nil
	}
	for _, z := range []struct {
		i int
		t *Tensor
	}{{2, x}, {5, weight}, {7, out}} {
		if _, is := byteType(z.t.Type); !is || c.Has(z.i) && (c.In[z.i].Type != z.t.Type || c.In[z.i].Len() == 0) {
			return nil, image, single, nil
		}
	}
	if v, err = form.NewWindow(&c.Call, weight.Shape[2:], x.Shape[1:rank-1], out.Shape[1:rank-1]); err != nil {
		return nil, image, single, err
	}
	image = gemm.Image{Channels: x.Shape[rank-1], In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
	if single && !(&gemm.DepthwisePixels{Image: image}).CanWeigh() {
		v = nil
	}
	return v, image, single, nil
}

// makePixelsConv is makeQLinearConv in NHWC; nil if it cannot compute this convolution.
func makePixelsConv(c *Invocation) (Run, error) {
	v, image, single, err := pixelsWindow(c)
	if v == nil || err != nil {
		return nil, err
	}
	weight := c.In[3]
	size, bias := weight.Shape[2:], noted(c.Has(8), "bias")
	if single {
		c.by("depthwise", size, "bytes", bias)
		if run := depthwiseQuads(c, image); run != nil {
			return run, nil
		}
		return depthwisePixels(c, image, newColumns(c, weight.Shape[0]))
	}
	c.by("implicit GEMM", size, "bytes", bias)
	if run := quadPixels(c, image, false); run != nil {
		return run, nil
	}
	p, err := pixelProducts(c, v, image)
	if err != nil {
		return nil, err
	}
	if err := p.quantize(7); err != nil {
		return nil, err
	}
	return p.runColumns(newColumns(c, weight.Shape[0]))
}

// PrefersPixels reports whether a QLinearConv that ConvolvesPixels is faster in NHWC. With VNNI,
// those that are not computed as quads are as fast in NCHW.
func PrefersPixels(c *Invocation) bool {
	if !gemm.Quads() {
		return gemm.Level() != "plain"
	}
	inner, _, _ := c.inPixels()
	v, image, single, err := pixelsWindow(&inner)
	return v != nil && err == nil && takesQuads(&inner, image, single)
}

// ConvolvesPixels reports whether a QLinearConv, whose shapes are those of NCHW, can read and
// write images that are held in NHWC.
func ConvolvesPixels(c *Invocation) bool {
	if c.Node.Op != "QLinearConv" || c.In[0].Rank() != 4 {
		return false
	}
	inner, _, _ := c.inPixels()
	v, _, _, err := pixelsWindow(&inner)
	return v != nil && err == nil
}

// inPixels returns a convolution in NHWC, and its images.
func (c *Invocation) inPixels() (inner Invocation, x, out *Tensor) {
	last := func(t *Tensor) *Tensor {
		s := t.Shape
		return &Tensor{Type: t.Type, Shape: []int{s[0], s[2], s[3], s[1]}, At: t.At, Const: t.Const, Computed: t.Computed}
	}
	x, out = last(c.In[0]), last(c.Out[0])
	inner = *c
	inner.In, inner.Out = append([]*Tensor{x}, c.In[1:]...), []*Tensor{out}
	return inner, x, out
}

// makeHeldConv is makeQLinearConv for images of which at least one is held in NHWC. The other
// is turned in scratch, or the output if the input's planes are few: gathering pixels of few
// bytes takes longer than the turn (the first layer of MobileNet v2: 1.3 and 0.8 ms).
func makeHeldConv(c *Invocation) (Run, error) {
	const fewPlanes = 8
	x, out := c.In[0], c.Out[0]
	inPlanes := x.Layout != form.NHWC && x.Shape[1] < fewPlanes
	inner, innerX, innerOut := c.inPixels()
	if inPlanes && out.Layout == form.NHWC {
		if run, err := planesToPixels(c, &inner); run != nil || err != nil {
			return run, err
		}
	}
	conv := makePixelsConv
	if inPlanes {
		innerX.Shape, innerOut.Shape, conv = x.Shape, out.Shape, makeQLinearConv
	}
	turnsX, turnsOut := (x.Layout == form.NHWC) == inPlanes, (out.Layout == form.NHWC) == inPlanes
	var enter, leave int // in the scratch
	if turnsX {
		enter = inner.Shared(x.Bytes())
	}
	if turnsOut {
		leave = inner.Shared(out.Bytes())
	}
	run, err := conv(&inner)
	if run == nil || err != nil {
		return run, err
	}
	c.SharedBytes, c.EachBytes, c.Packed, c.Way = inner.SharedBytes, inner.EachBytes, inner.Packed, inner.Way
	return func(w *work.Pool) error {
		innerX.At, innerOut.At = x.At, out.At
		if turnsX {
			innerX.At = w.Shared(enter)
			turn(w, innerX, x, x.Shape, true)
		}
		if turnsOut {
			innerOut.At = w.Shared(leave)
		}
		if err := run(w); err != nil {
			return err
		}
		switch {
		case turnsOut && inPlanes:
			turn(w, out, innerOut, out.Shape, true)
		case turnsOut:
			turn(w, innerOut, out, out.Shape, false)
		}
		return nil
	}, nil
}

// turn copies bytes between pixels and planes of the given shape.
func turn(w *work.Pool, pixels, planes *Tensor, shape []int, enter bool) {
	images, channels, n := shape[0], shape[1], count(shape[2:])
	group := max(8, grain/channels&^7) // pixels
	parts := cuts(n, group)
	w.For(images*parts, func(p, _ int) {
		first := p / parts * channels * n
		from := p % parts * group
		a, b := (*byte)(element[byte](pixels, first+from*channels)), (*byte)(element[byte](planes, first+from))
		if enter {
			simd.TransposeBytes(a, b, channels, n, channels, min(group, n-from))
		} else {
			simd.TransposeBytes(b, a, n, channels, min(group, n-from), channels)
		}
	})
}

// columns holds the scales and biases of the columns of a product: the channels of a
// QLinearConv, or the columns of a QLinearMatMul, which has the same inputs but no bias.
type columns struct {
	c      *Invocation
	scales []float32
	biases []int32
}

func newColumns(c *Invocation, n int) *columns {
	return &columns{c: c, scales: numbersOf[float32](c, n), biases: numbersOf[int32](c, n)}
}

func (k *columns) read() {
	c := k.c
	x, w, y := data[float32](c.In[1])[0], data[float32](c.In[4]), data[float32](c.In[6])[0]
	for from, to := range c.Pieces(len(k.scales)) {
		for i := from; i < to; i++ {
			k.scales[i], k.biases[i] = x*w[i%len(w)]/y, 0
			if c.Has(8) {
				k.biases[i] = data[int32](c.In[8])[i]
			}
		}
	}
}

// pixelProducts returns a product for each image.
func pixelProducts(c *Invocation, v *form.Window, image gemm.Image) (*integers, error) {
	x, weight := c.In[0], c.In[3]
	signedX, _ := byteType(x.Type)
	signedW, _ := byteType(weight.Type)
	m, ch := weight.Shape[0], weight.Shape[1]
	k, images := ch*v.Taps(), x.Shape[0]
	p := &integers{c: c, list: tableOf[gemm.Integer](c, images), out: tableOf[int](c, images), stride: m}
	flat, pixels := tableOf[gemm.Bytes](c, images), tableOf[gemm.BytePixels](c, images)
	zeroOfX, zeroW := numbersOf[int16](c, 1), newZeros(c, c.Input(5), m, func(j int) int { return j })
	right := &gemm.Bytes{Len: m, Step: k, Deep: 1, Signed: signedW, Zeros: zeroW.list}
	if v.Taps() > 1 && ch > 1 {
		right.Deep, right.Taps = ch, v.Taps()
	}
	for i := range p.list {
		flat[i] = gemm.Bytes{Len: v.Outputs(), Step: ch, Deep: 1, Signed: signedX, Zeros: zeroOfX}
		pixels[i] = gemm.BytePixels{Image: image, Signed: signedX}
		p.list[i] = gemm.Integer{M: v.Outputs(), N: m, K: k, A: &pixels[i], B: right}
		if v.Flat() {
			p.list[i].A = &flat[i]
		}
		p.out[i] = i * m * v.Outputs()
		c.packBytes(&p.list[i], right, zeroW, &zeros{list: zeroOfX}, weight, 0, k, true)
	}
	zeroX := zeroPoint(c, 2)
	p.arrange = func() {
		zeroOfX[0] = int16(zeroX(0))
		zeroW.read()
		right.At = weight.At
		for i := range p.list {
			at := element[byte](x, i*ch*v.Inputs())
			flat[i].At, pixels[i].At, pixels[i].Zero = at, at, zeroOfX[0]
		}
	}
	return p, nil
}

// depthwisePixels is a QLinearConv of single channels. The sums are those of the image
// without its zero point, which the biases take off.
func depthwisePixels(c *Invocation, image gemm.Image, k *columns) (Run, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	signed, _ := byteType(x.Type)
	channels, taps := weight.Shape[0], count(weight.Shape[2:])
	d := &gemm.DepthwisePixels{Image: image, Signed: signed}
	d.Blocks = numbersOf[int32](c, d.BlocksLen())
	bytesX, bytesY := bytesOf(c, x, 2), bytesOf(c, out, 7)
	weights := channelWeights(c, k.scales, func(ch int) int32 { return k.biases[ch] })
	arrange := func() {
		k.read()
		d.SetBlocks(bytesX(0).Zero, weights)
	}
	fixed := constantQuantities(c)
	if fixed {
		arrange()
	}
	const leastWork = 1 << 19 // multiplications: some forty microseconds
	height, inputs, outputs := image.Out[1], channels*image.In[1]*image.In[2], channels*image.Out[1]*image.Out[2]
	rows := min(height, max(1, leastWork/max(1, taps*channels*image.Out[2])))
	parts := cuts(height, rows)
	pads := c.Each(d.PadLen())
	var pool *work.Pool
	part := func(p, worker int) {
		i, from := p/parts, p%parts*rows
		pad := pool.Each(worker, pads)
		fill(span[byte](pad, d.PadLen()), byte(bytesX(0).Zero))
		d.Rows(element[byte](out, i*outputs), element[byte](x, i*inputs), pad, from, min(from+rows, height))
	}
	return func(w *work.Pool) error {
		pool = w
		if !fixed {
			arrange()
		}
		d.To = bytesY(0)
		w.For(x.Shape[0]*parts, part)
		return nil
	}, nil
}

// constantQuantities reports whether all inputs of a QLinearConv but the image and the
// zero point of the output are constants.
func constantQuantities(c *Invocation) bool {
	for i, t := range c.In {
		if i != 0 && i != 7 && t != nil && !t.Const {
			return false
		}
	}
	return true
}

// channelWeights returns a function for gemm.DepthwisePixels.SetBlocks, from the weights of
// a QLinearConv of single channels.
func channelWeights(c *Invocation, scales []float32, bias func(ch int) int32) func(ch int) ([]int16, int32, float32) {
	weight := c.In[3]
	taps, of := count(weight.Shape[2:]), bytesOf(c, weight, 5)
	list, m := make([]int16, taps), c.Meter()
	return func(ch int) ([]int16, int32, float32) {
		m.Add(taps)
		to := of(ch)
		for t, b := range data[byte](weight)[ch*taps : (ch+1)*taps] {
			w := int32(b)
			if to.Signed {
				w = int32(int8(b))
			}
			list[t] = int16(w - to.Zero)
		}
		return list, bias(ch), scales[ch]
	}
}

// planesAsPixels is a QLinearConv of single channels that turns bands of planes into
// pixels, 32 channels at a time, and the results back into planes; nil if it cannot. Both
// bands stay in the cache.
func planesAsPixels(c *Invocation, v *form.Window, factors []float32) Run {
	const (
		width      = 32   // channels
		bandPixels = 2048 // of the image or the output, whichever has more
	)
	x, out := c.In[0], c.Out[0]
	signed, _ := byteType(x.Type)
	channels, inputs, outputs := x.Shape[1], v.Inputs(), v.Outputs()
	whole := gemm.DepthwisePixels{
		Image:  gemm.Image{Channels: width, In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad},
		Signed: signed,
	}
	if channels < width || !whole.CanWeigh() {
		return nil
	}
	blocks := cuts(channels, width)
	first := func(b int) int { return min(width*b, channels-width) }
	tables := numbersOf[int32](c, mul(blocks, whole.BlocksLen()))
	bytesX, bytesY := bytesOf(c, x, 2), bytesOf(c, out, 7)
	weights := channelWeights(c, factors, func(ch int) int32 {
		if c.Has(8) {
			return data[int32](c.In[8])[ch]
		}
		return 0
	})
	arrange := func() {
		for b := range blocks {
			whole.Blocks = tables[b*whole.BlocksLen():][:whole.BlocksLen()]
			whole.SetBlocks(bytesX(0).Zero, func(ch int) ([]int16, int32, float32) { return weights(first(b) + ch) })
		}
	}
	reach := (v.Kernel[1]-1)*v.Dilation[1] + 1 // rows of the image under the kernel
	rows := min(v.Out[1], max(1, bandPixels/max(v.In[2]*v.Stride[1], v.Out[2])))
	bands, deep := cuts(v.Out[1], rows), min(v.In[1], (rows-1)*v.Stride[1]+reach)
	images, results, pads := c.Each(mul(width, deep, v.In[2])), c.Each(mul(width, rows, v.Out[2])), c.Each(whole.PadLen())
	var pool *work.Pool
	part := func(p, worker int) {
		i, b, h := p/bands/blocks, p/bands%blocks, p%bands*rows
		n := min(rows, v.Out[1]-h)
		d := whole
		d.Blocks = tables[b*whole.BlocksLen():][:whole.BlocksLen()]
		// The rows of the image that the band reads.
		top := h*v.Stride[1] - v.Pad[1]
		from := min(max(top, 0), v.In[1])
		to := min(max(top+(n-1)*v.Stride[1]+reach, from), v.In[1])
		d.In[1], d.Out[1], d.Pad[1] = to-from, n, from-top
		pixels, sums, pad := pool.Each(worker, images), pool.Each(worker, results), pool.Each(worker, pads)
		if to > from {
			at := element[byte](x, (i*channels+first(b))*inputs+from*v.In[2])
			simd.TransposeBytes((*byte)(pixels), (*byte)(at), width, inputs, width, (to-from)*v.In[2])
		}
		fill(span[byte](pad, whole.PadLen()), byte(bytesX(0).Zero))
		d.Rows(sums, pixels, pad, 0, n)
		seen := width*b - first(b) // channels that the block before has written
		at := element[byte](out, (i*channels+width*b)*outputs+h*v.Out[2])
		simd.TransposeBytes((*byte)(at), (*byte)(unsafe.Add(sums, seen)), outputs, width, n*v.Out[2], width-seen)
	}
	fixed, arranged := constantQuantities(c), false
	return func(w *work.Pool) error {
		pool = w
		if !fixed || !arranged {
			arrange()
			arranged = true
		}
		whole.To = bytesY(0)
		w.For(x.Shape[0]*blocks*bands, part)
		return nil
	}
}
