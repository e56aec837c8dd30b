package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// With VNNI, convolutions of bytes that write NHWC meet four weights of a channel at once, and round
// their sums while these are in registers: gemm.QuadPixels, and of single channels
// gemm.QuadDepthwise. All that they read but the image is constant.

// takesQuads reports whether quadPixels or depthwiseQuads can compute a convolution in NHWC if its
// scales are not extreme.
func takesQuads(c *Invocation, image gemm.Image, single bool) bool {
	if _, is := signedWeights(c); !is || !constantQuantities(c) || !c.In[3].Packs() {
		return false
	}
	if single {
		return (&gemm.QuadDepthwise{Image: image}).Prepare()
	}
	return (&gemm.QuadPixels{Image: image, N: c.In[3].Shape[0]}).Prepare()
}

// sumScale returns the bias and the scale of the sums of a channel.
func sumScale(c *Invocation, channel int) (bias int32, scale float32) {
	x, w, y := data[float32](c.In[1])[0], data[float32](c.In[4]), data[float32](c.In[6])[0]
	if c.Has(8) {
		bias = data[int32](c.In[8])[channel]
	}
	return bias, x * w[channel%len(w)] / y
}

// fitting reports whether gemm.Fitting holds for all channels of a convolution.
func fitting(c *Invocation) bool {
	weight := c.In[3]
	for from, to := range c.Pieces(weight.Shape[0]) {
		for channel := from; channel < to; channel++ {
			if bias, scale := sumScale(c, channel); !gemm.Fitting(count(weight.Shape[1:]), bias, scale) {
				return false
			}
		}
	}
	return true
}

// quadPixels is a convolution in NHWC; nil if it cannot compute this one. The image may be in NCHW.
func quadPixels(c *Invocation, image gemm.Image, planes bool) Run {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	signed, _ := byteType(x.Type)
	d := &gemm.QuadPixels{Image: image, Planes: planes, Signed: signed, N: weight.Shape[0]}
	flip, is := signedWeights(c)
	if !is || !constantQuantities(c) || !weight.Packs() || !d.Prepare() || !fitting(c) {
		return nil
	}
	key := form.PackKey{At: weight.At, Type: weight.Type, Right: true, Quads: true, Len: d.N, K: count(weight.Shape[1:])}
	copy(key.Pixels[:], []int{image.Kernel[1], image.Kernel[2], image.Dilation[1], image.Dilation[2], 1})
	if planes {
		key.Pixels[4] = 2
	}
	packed, ok := c.Runtime.Pack(key, d.WeightBytes(), func(dst unsafe.Pointer) {
		d.Pack(dst, weight.At, flip, c.Runtime)
		c.Poll() // a stop discards the half-packed operand
	})
	if !ok {
		return nil
	}
	c.Packed = append(c.Packed, weight)
	bytesX, bytesY := bytesOf(c, x, 2), bytesOf(c, out, 7)
	q := &gemm.QuadColumnBytes{Weights: packed, Biases: alignedNumbers[int32](c, d.Columns()), Scales: alignedNumbers[float32](c, d.Columns()), Pad: byte(bytesX(0).Zero)}
	zero := unsignedZero(bytesX(0))
	clear(q.Biases)
	clear(q.Scales)
	for i, sum := range d.Sums(packed)[:d.N] {
		bias, scale := sumScale(c, i)
		q.Biases[i], q.Scales[i] = bias-zero*sum, scale
	}
	var (
		pool          *work.Pool
		bands, groups int
	)
	scratch, inputs, outputs := c.Each(d.ScratchBytes()), image.Channels*image.In[1]*image.In[2], d.N*image.Out[1]*image.Out[2]
	part := func(p, worker int) {
		i := p / (bands * groups)
		d.Part(p%(bands*groups), bands, groups, element[byte](out, i*outputs), element[byte](x, i*inputs), pool.Each(worker, scratch), q)
	}
	return func(w *work.Pool) error {
		pool = w
		bands, groups = d.Parts(w.Workers())
		to := bytesY(0)
		q.Zero, q.SignedOut = to.Zero, to.Signed
		w.For(x.Shape[0]*bands*groups, part)
		return nil
	}
}

// unsignedZero is the zero point after bytes are made unsigned.
func unsignedZero(b simd.Byte) int32 {
	if b.Signed {
		return b.Zero + 128
	}
	return b.Zero
}

// planesToPixels is a convolution of an image in NCHW that writes NHWC; inner is the same one with
// both in NHWC. It returns nil if it cannot compute it.
func planesToPixels(c, inner *Invocation) (Run, error) {
	v, image, single, err := pixelsWindow(inner)
	if v == nil || err != nil || single {
		return nil, err
	}
	of := *inner
	of.In = append([]*Tensor{c.In[0]}, inner.In[1:]...)
	of.Out = c.Out
	run := quadPixels(&of, image, true)
	if run != nil {
		of.by("implicit GEMM", c.In[3].Shape[2:], "bytes", noted(c.Has(8), "bias"))
		c.SharedBytes, c.EachBytes, c.Packed, c.Way = of.SharedBytes, of.EachBytes, of.Packed, of.Way
	}
	return run, nil
}

// depthwiseQuads is a convolution of single channels in NHWC; nil if it cannot compute this one.
func depthwiseQuads(c *Invocation, image gemm.Image) Run {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	signed, _ := byteType(x.Type)
	d := &gemm.QuadDepthwise{Image: image, Signed: signed}
	flip, is := signedWeights(c)
	if !is || !constantQuantities(c) || !weight.Packs() || !d.Prepare() || !fitting(c) {
		return nil
	}
	taps := count(weight.Shape[2:])
	list, m := make([]int8, taps), c.Meter()
	bytesX, bytesY := bytesOf(c, x, 2), bytesOf(c, out, 7)
	d.Table = alignedNumbers[int32](c, d.TableLen())
	d.SetTable(bytesX(0).Zero, func(channel int) ([]int8, int32, float32) {
		m.Add(taps)
		for t, b := range data[byte](weight)[channel*taps:][:taps] {
			list[t] = int8(b ^ flip)
		}
		bias, scale := sumScale(c, channel)
		return list, bias, scale
	})
	const leastWork = 1 << 17 // multiplications: some three microseconds
	height, inputs, outputs := image.Out[1], image.Channels*image.In[1]*image.In[2], image.Channels*image.Out[1]*image.Out[2]
	rows := min(height, cuts(max(1, leastWork/max(1, taps*image.Channels*image.Out[2])), 2)*2)
	parts, pads := cuts(height, rows), c.Each(d.ScratchBytes())
	var pool *work.Pool
	part := func(p, worker int) {
		i, from := p/parts, p%parts*rows
		pad := pool.Each(worker, pads)
		d.Surround(pad, byte(bytesX(0).Zero))
		d.Rows(element[byte](out, i*outputs), element[byte](x, i*inputs), pad, from, min(from+rows, height))
	}
	return func(w *work.Pool) error {
		pool = w
		to := bytesY(0)
		d.Zero, d.SignedOut = to.Zero, to.Signed
		w.For(x.Shape[0]*parts, part)
		return nil
	}
}

// alignedNumbers is numbersOf that begin with a line of the cache: a vector that crosses one takes
// twice as long to read.
func alignedNumbers[T int32 | float32](c *Invocation, n int) []T {
	const line = 64
	list := numbersOf[T](c, n+line/4)
	return list[-uintptr(unsafe.Pointer(unsafe.SliceData(list)))%line/4:][:n]
}
