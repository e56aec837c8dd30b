package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quadPlanes is a QLinearConv of single channels whose weights, less their zero points, are
// signed bytes; nil if it cannot compute this one.
func quadPlanes(c *Invocation, v *form.Window, factors []float32) Run {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	d := &gemm.QuadPlanes{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
	flip, is := signedWeights(c)
	if !is || !d.Prepare() {
		return nil
	}
	channels, taps, inputs, outputs := weight.Shape[0], v.Taps(), v.Inputs(), v.Outputs()
	quads, biases := numbersOf[int32](c, mul(channels, d.Quads())), numbersOf[int32](c, channels)
	bytesX, bytesY := bytesOf(c, x, 2), bytesOf(c, out, 7)
	unsign := byte(0)
	if signed, _ := byteType(x.Type); signed {
		unsign = 0x80
	}
	arrange := func() {
		m, zero := c.Meter(), int32(byte(bytesX(0).Zero)^unsign)
		for ch := range channels {
			m.Add(taps)
			// The sums are those of the unsigned bytes with their zero point.
			biases[ch] = -zero * d.Pack(quads[ch*d.Quads():][:d.Quads()], data[byte](weight)[ch*taps:][:taps], flip)
			if c.Has(8) {
				biases[ch] += data[int32](c.In[8])[ch]
			}
		}
	}
	fixed := constantQuantities(c)
	if fixed {
		arrange()
	}
	const leastWork = 1 << 16 // multiplications: some five microseconds
	group := max(1, leastWork/mul(taps, outputs))
	parts := cuts(channels, group)
	scratch := c.Each(d.ScratchBytes())
	var (
		pool   *work.Pool
		common gemm.QuadChannels // what the channels share
	)
	part := func(p, worker int) {
		i, from, room, q := p/parts, p%parts*group, pool.Each(worker, scratch), common
		end := min(from+group, channels)
		q.Quads, q.Biases, q.Scales = quads[from*d.Quads():end*d.Quads()], biases[from:end], factors[from:end]
		d.Surround(room, q.Pad^unsign)
		at := i*channels + from
		d.Planes(element[byte](out, at*outputs), element[byte](x, at*inputs), room, &q)
	}
	return func(w *work.Pool) error {
		pool = w
		if !fixed {
			arrange()
		}
		from, to := bytesX(0), bytesY(0)
		common = gemm.QuadChannels{Signed: from.Signed, Pad: byte(from.Zero), Zero: to.Zero, SignedOut: to.Signed}
		common.Low, common.High = to.Span()
		w.For(x.Shape[0]*parts, part)
		return nil
	}
}

// signedWeights returns what makes signed bytes of the weights of a QLinearConv less their
// zero points, with XOR, and false if nothing does so whatever they are.
func signedWeights(c *Invocation) (flip byte, is bool) {
	signed, _ := byteType(c.In[3].Type)
	if !signed {
		flip = 0x80
	}
	if !c.Has(5) {
		return flip, signed
	}
	if !c.In[5].Const {
		return flip, false
	}
	for _, zero := range data[byte](c.In[5]) {
		if zero != flip {
			return flip, false
		}
	}
	return flip, true
}
