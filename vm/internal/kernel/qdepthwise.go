package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Depthwise convolution of 8-bit integers multiplies too few numbers per channel to fill
// the micro-kernels for integers. With VNNI, it multiplies four weights of a row of the
// kernel at once ([quadPlanes]), or else reads each channel in place; both round the sums
// while they are in registers. Otherwise, 32 channels or more are computed as pixels
// (planesAsPixels), and fewer in float32, plane by plane, which is nevertheless exact. A
// sum begins at middle, and so all its partial sums lie in [2²³, 2²⁴), where float32
// represents each integer and no other number. The bits of such a float32, read as an
// int32, are middleBits plus the sum of the products.
const (
	middle     = 0x1.8p23
	middleBits = 0x4B400000
	// mostExactTaps is the number of products of two bytes less their zero points whose
	// sum cannot leave the range.
	mostExactTaps = 1 << 22 / (255 * 255)
)

// byteDepthwise returns the window of a depthwise convolution of bytes that
// [qlinearDepthwise] can compute; nil for any other convolution. The inputs are those of
// QLinearConv.
func byteDepthwise(c *Invocation) (*form.Window, *gemm.Depthwise, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	if weight.Shape[1] != 1 || weight.Shape[0] != c.Int("group", 1) || x.Shape[1] != weight.Shape[0] || out.Len() == 0 {
		return nil, nil, nil
	}
	for _, z := range []struct {
		i int
		t *Tensor
	}{{2, x}, {5, weight}, {7, out}} {
		// With a zero point of another type, a difference may need more than 8 bits.
		if _, is := byteType(z.t.Type); !is || c.Has(z.i) && (c.In[z.i].Type != z.t.Type || c.In[z.i].Len() == 0) {
			return nil, nil, nil
		}
	}
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil || v.Taps() > mostExactTaps {
		return nil, nil, err
	}
	d := &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Stop: c.Runtime}
	if d.ScratchBytes() == 0 {
		return nil, nil, nil
	}
	return v, d, nil
}

// qlinearDepthwise is a QLinearConv of single channels. factors are the scales of their
// sums.
func qlinearDepthwise(c *Invocation, v *form.Window, d *gemm.Depthwise, factors []float32) (Run, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	channels, taps := weight.Shape[0], v.Taps()
	if run := quadPlanes(c, v, factors); run != nil {
		return run, nil
	}
	d.Bytes = true
	if n := d.TableLen(); n > 0 {
		d.UseTable(numbersOf[int32](c, n))
		return bytesInPlace(c, v, d, factors), nil
	}
	d.Bytes = false
	if run := planesAsPixels(c, v, factors); run != nil {
		return run, nil
	}
	scratch := planeScratch(c, d)
	planes, sums, kernels := c.Each(mul(4, v.Inputs())), c.Each(mul(4, v.Outputs())), c.Each(4*taps)
	bytesX, bytesW, bytesY := bytesOf(c, x, 2), bytesOf(c, weight, 5), bytesOf(c, out, 7)
	var w *work.Pool
	part := func(i, worker int) {
		channel := i % channels
		bias := int32(0)
		if c.Has(8) {
			bias = data[int32](c.In[8])[channel]
		}
		plane, to, kernel := w.Each(worker, planes), w.Each(worker, sums), w.Each(worker, kernels)
		whole := func(d, s unsafe.Pointer, n int, from simd.Byte) {
			simd.Dequantize(span[float32](d, n), span[byte](s, n), 1, from)
		}
		whole(kernel, element[byte](weight, channel*taps), taps, bytesW(channel))
		for a, b := range c.Pieces(v.Inputs()) {
			whole(unsafe.Add(plane, 4*a), element[byte](x, i*v.Inputs()+a), b-a, bytesX(0))
		}
		d.Plane(to, plane, kernel, middle, w.Each(worker, scratch))
		scale, y := factors[channel], bytesY(0)
		for a, b := range c.Pieces(v.Outputs()) {
			simd.Requantize(span[byte](element[byte](out, i*v.Outputs()+a), b-a), span[int32](unsafe.Add(to, 4*a), b-a), bias-middleBits, scale, y)
		}
	}
	return func(pool *work.Pool) error {
		w = pool
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// bytesInPlace is qlinearDepthwise with a table for bytes. A channel of the last layers takes
// some fifty nanoseconds, so what holds for all channels is found once.
func bytesInPlace(c *Invocation, v *form.Window, d *gemm.Depthwise, factors []float32) Run {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	channels, taps, inputs, outputs := weight.Shape[0], v.Taps(), v.Inputs(), v.Outputs()
	kernels := c.Each(4 * taps)
	bytesX, bytesW, bytesY := bytesOf(c, x, 2), bytesOf(c, weight, 5), bytesOf(c, out, 7)
	alike := !c.Has(5) || c.In[5].Len() == 1
	var (
		pool    *work.Pool
		common  gemm.ByteChannel // what the channels share
		of      simd.Byte
		weights []byte
		biases  []int32 // nil: none
	)
	part := func(i, worker int) {
		channel := i % channels
		p, of := common, of
		if !alike {
			of = bytesW(channel)
		}
		p.Weights, p.Scale = span[uint32](pool.Each(worker, kernels), taps), factors[channel]
		if biases != nil {
			p.Bias = biases[channel]
		}
		flip := int32(0) // a signed byte is the flipped one less 128
		if of.Signed {
			flip = 0x80
		}
		less := of.Zero + flip
		for t, b := range weights[channel*taps : (channel+1)*taps] {
			p.Weights[t] = uint32(uint16(int32(b) ^ flip - less))
		}
		d.BytePlane(element[byte](out, i*outputs), element[byte](x, i*inputs), &p)
	}
	return func(w *work.Pool) error {
		pool = w
		from, to := bytesX(0), bytesY(0)
		common = gemm.ByteChannel{Signed: from.Signed, Pad: from.Zero, Zero: to.Zero}
		common.Low, common.High = to.Span()
		of, weights, biases = bytesW(0), data[byte](weight), nil
		if c.Has(8) {
			biases = data[int32](c.In[8])
		}
		pool.For(x.Shape[0]*channels, part)
		return nil
	}
}

// bytesOf returns the type of the bytes of t with its zero points, input i: a single one,
// or one for each channel.
func bytesOf(c *Invocation, t *Tensor, i int) func(channel int) simd.Byte {
	signed, _ := byteType(t.Type)
	zeros := c.Input(i)
	return func(channel int) simd.Byte {
		b := simd.Byte{Signed: signed}
		if zeros == nil {
			return b
		}
		zero := *(*byte)(element[byte](zeros, channel%zeros.Len()))
		if b.Zero = int32(zero); signed {
			b.Zero = int32(int8(zero))
		}
		return b
	}
}
