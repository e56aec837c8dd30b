package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// QuantizedConv makes a convolution of quantized tensors; c has the inputs of QLinearConv.
// If real is not nil, it has the numbers that input 0 represents, and the kernel first
// quantizes them, which is exact.
func QuantizedConv(c *Invocation, real *Tensor) (_ Run, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = Refused(r); err == nil {
				panic(r)
			}
		}
	}()
	image := 0
	if real != nil {
		image = c.Shared(c.In[0].Bytes())
	}
	weight := c.In[3]
	convolve := makeQLinearConv
	if weight.Shape[1] == 1 && weight.Shape[0] == c.Int("group", 1) {
		convolve = quantizedDepthwise
	}
	run, err := convolve(c)
	if err != nil || real == nil {
		return run, err
	}
	signed, _ := byteType(c.In[0].Type)
	zero := zeroPoint(c, 2)
	n := real.Len()
	quantize := func(p, _ int) {
		from, n := p*grain, min(grain, n-p*grain)
		simd.Quantize(span[byte](element[byte](c.In[0], from), n), span[float32](element[float32](real, from), n),
			data[float32](c.In[1])[0], simd.Byte{Signed: signed, Zero: int32(zero(0))})
	}
	return func(w *work.Pool) error {
		c.In[0].At = w.Shared(image)
		w.For(cuts(n, grain), quantize)
		return run(w)
	}, nil
}

// quantizedDepthwise convolves each channel separately. A product of so few numbers does
// not fill the micro-kernels for integers, so it computes with reals, in the cache.
func quantizedDepthwise(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	v, err := newWindow(c, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, err
	}
	d := &gemm.Depthwise{In: v.in, Out: v.out, Kernel: v.kernel, Stride: v.stride, Dilation: v.dil, Pad: v.pads, Stop: c.Runtime}
	bytes := d.ScratchBytes()
	signedX, isX := byteType(x.Type)
	signedW, isW := byteType(weight.Type)
	signedY, isY := byteType(out.Type)
	if bytes == 0 || !isX || !isW || !isY {
		return makeQLinearConv(c)
	}
	channels, taps := weight.Shape[0], v.taps()
	each := c.Each(bytes)
	plane, sums, weights := c.Each(4*v.inputs()), c.Each(4*v.outputs()), c.Each(4*taps)
	zeroX, zeroW, zeroY := zeroPoint(c, 2), zeroPoint(c, 5), zeroPoint(c, 7)
	var w *work.Pool
	part := func(i, worker int) {
		ch := i % channels
		scaleX, scaleY := data[float32](c.In[1])[0], data[float32](c.In[6])[0]
		list := data[float32](c.In[4])
		scaleW := list[ch%len(list)]
		bias := float32(0)
		if c.Has(8) {
			bias = float32(float64(data[int32](c.In[8])[ch]) * float64(scaleX*scaleW))
		}
		from, to, kernel := w.Each(worker, plane), w.Each(worker, sums), w.Each(worker, weights)
		simd.Dequantize(span[float32](kernel, taps), span[byte](element[byte](weight, ch*taps), taps), scaleW, simd.Byte{Signed: signedW, Zero: int32(zeroW(ch))})
		dequantize := func(d, s unsafe.Pointer, n int) {
			simd.Dequantize(span[float32](d, n), span[byte](s, n), scaleX, simd.Byte{Signed: signedX, Zero: int32(zeroX(0))})
		}
		for a, b := range c.pieces(v.inputs()) {
			dequantize(unsafe.Add(from, 4*a), element[byte](x, i*v.inputs()+a), b-a)
		}
		d.Plane(to, from, kernel, bias, w.Each(worker, each))
		for a, b := range c.pieces(v.outputs()) {
			simd.Quantize(span[byte](element[byte](out, i*v.outputs()+a), b-a), span[float32](unsafe.Add(to, 4*a), b-a), scaleY, simd.Byte{Signed: signedY, Zero: int32(zeroY(0))})
		}
	}
	return func(pool *work.Pool) error {
		w = pool
		w.For(x.Shape[0]*channels, part)
		return nil
	}, nil
}

// Byte reports whether a tensor has elements of 8 bits.
func (t *Tensor) Byte() bool { return t.Type == graph.Int8 || t.Type == graph.Uint8 }
