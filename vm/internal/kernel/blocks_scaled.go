package kernel

import (
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// scaledRow returns the function of an operator on an image and a number for each channel:
// d = a op b, where d may be a or b.
func scaledRow(op string) func(d, a, b []float32) {
	switch op {
	case "Add":
		return simd.Add
	case "Sub":
		return simd.Sub
	case "Mul":
		return simd.Mul
	case "Div":
		return simd.Div
	case "PRelu":
		return loopsOf(slope[float32]).vv
	}
	return nil
}

// scaledImage returns which input of a binary operator is the image in blocks: the other one
// has a number for each channel, the same for all images or not. It is -1 if there is none.
func scaledImage(c *Invocation) int {
	out := c.Out[0]
	if scaledRow(c.Node.Op) == nil || c.Version != 0 && c.Version < 7 || len(c.In) != 2 || !fitsHalves(out) {
		return -1
	}
	for i, x := range c.In {
		y := c.In[1-i]
		if !fitsHalves(x) || y.Type != out.Type || !slices.Equal(x.Shape, out.Shape) || slices.Equal(y.Shape, out.Shape) {
			continue
		}
		shape := y.Shape
		if len(shape) == 3 {
			shape = append([]int{1}, shape...)
		}
		if len(shape) == 4 && (shape[0] == 1 || shape[0] == x.Shape[0]) && shape[1] == x.Shape[1] && shape[2] == 1 && shape[3] == 1 {
			return i
		}
	}
	return -1
}

// canBlocksScaled reports whether makeBlocksScaled can compute a binary operator.
func canBlocksScaled(c *Invocation) bool { return scaledImage(c) >= 0 }

// scaled is make, or makeBlocksScaled for an image in blocks and a number for each channel.
func scaled(make func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		if c.Out[0].Layout == form.NCHW16c && canBlocksScaled(c) {
			return makeBlocksScaled(c)
		}
		return make(c)
	}
}

// makeBlocksScaled computes a binary operator of an image in NCHW16c and a number for each
// channel, which is the same in NCHW. It repeats the numbers of a block for several pixels,
// so that these are one row of the operator.
func makeBlocksScaled(c *Invocation) (Run, error) {
	const together = 64 * gemm.BlockLen
	which := scaledImage(c)
	if which < 0 {
		return nil, unsupportedf("this %s of an image in blocks", c.Node.Op)
	}
	row, x, y, out := scaledRow(c.Node.Op), c.In[which], c.In[1-which], c.Out[0]
	if which == 1 {
		straight := row
		row = func(d, a, b []float32) { straight(d, b, a) }
	}
	pixels, channels := count(x.Shape[2:]), x.Shape[1]
	pieces := cuts(pixels*gemm.BlockLen, grain)
	each := c.Each(4 * together)
	var pool *work.Pool
	part := func(i, worker int) {
		image, first, lanes := blockAt(channels, i/pieces)
		from := i % pieces * grain
		size := min(grain, pixels*lanes-from)
		if size <= 0 { // of half a block
			return
		}
		list := span[float32](pool.Each(worker, each), min(together, size))
		scale := span[float32](element[float32](y, (image*channels+first)%y.Len()), lanes)
		for k := copy(list, scale); k < len(list); k *= 2 {
			copy(list[k:], list[:k])
		}
		at := (image*channels+first)*pixels + from
		d, a := span[float32](element[float32](out, at), size), span[float32](element[float32](x, at), size)
		for ; len(d) > 0; d, a = d[len(list):], a[len(list):] {
			list = list[:min(len(list), len(d))]
			row(d[:len(list)], a[:len(list)], list)
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*cuts(channels, gemm.BlockLen)*pieces, part)
		return nil
	}, nil
}

// canBlocksResize reports whether makeBlocksResize can compute a Resize or Upsample.
func canBlocksResize(c *Invocation) bool {
	if !fitsBlocks(c.In[0]) || !fitsBlocks(c.Out[0]) {
		return false
	}
	list, _, err := c.Interpolations()
	return err == nil && byPlanes(list)
}

// makeBlocksResize is makeResize of the last two axes of an image in blocks.
func makeBlocksResize(c *Invocation) (Run, error) {
	if !fitsBlocks(c.In[0]) || !fitsBlocks(c.Out[0]) {
		return nil, unsupportedf("this %s of an image in blocks", c.Node.Op)
	}
	list, _, err := c.Interpolations()
	if err != nil {
		return nil, err
	}
	if !byPlanes(list) {
		return nil, unsupportedf("this %s of an image in blocks", c.Node.Op)
	}
	return unlessView(c.Out[0], c.In[0], resizeBlocks(c, c.In[0], c.Out[0], list)), nil
}

// resizeBlocks is resizePlanes of an image in blocks: a row of it has rows of all channels of
// a block.
func resizeBlocks(c *Invocation, in, out *Tensor, list []form.Interpolation) Run {
	down, along := &list[len(list)-2], &list[len(list)-1]
	inRow, outRow := along.In*gemm.BlockLen, along.Out*gemm.BlockLen
	off := c.Each(mul(4, inRow))
	weights, across := narrowed(c, down.Weight), narrowed(c, along.Weight)
	var pool *work.Pool
	part := func(i, worker int) {
		block, o := i/down.Out, i%down.Out
		x := span[float32](element[float32](in, block*down.In*inRow), down.In*inRow)
		d := span[float32](element[float32](out, i*outRow), outRow)
		row := span[float32](pool.Each(worker, off), inRow)
		m := c.Meter()
		switch {
		case down.From == nil:
			row = x[o*inRow:][:inRow]
		case down.Taps == 1:
			row = x[down.From[o]*inRow:][:inRow]
		default:
			mixRows(&m, row, x, down.From[o*down.Taps:(o+1)*down.Taps], weights[o*down.Taps:(o+1)*down.Taps])
		}
		mixPixels(&m, d, row, along, across)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(count(out.Shape[:2])/gemm.BlockLen*down.Out, part)
		return nil
	}
}

// mixPixels is mixAlong for a row of pixels of a block.
func mixPixels(m *form.Meter, d, row []float32, v *form.Interpolation, weights []float32) {
	pixel := func(list []float32, i int) *[gemm.BlockLen]float32 {
		return (*[gemm.BlockLen]float32)(list[i*gemm.BlockLen:])
	}
	switch {
	case v.From == nil:
		m.Add(len(d))
		copy(d, row)
	case v.Taps == 1:
		for i, from := range v.From {
			m.Add(gemm.BlockLen)
			*pixel(d, i) = *pixel(row, from)
		}
	case v.Taps == 2:
		for i := range len(v.From) / 2 {
			m.Add(gemm.BlockLen)
			to, a, b, w0, w1 := pixel(d, i), pixel(row, v.From[2*i]), pixel(row, v.From[2*i+1]), weights[2*i], weights[2*i+1]
			for lane := range to {
				to[lane] = w0*a[lane] + w1*b[lane]
			}
		}
	default:
		for i := range len(v.From) / v.Taps {
			m.Add(v.Taps * gemm.BlockLen)
			var sum [gemm.BlockLen]float32
			for t := i * v.Taps; t < (i+1)*v.Taps; t++ {
				for lane, x := range pixel(row, v.From[t]) {
					sum[lane] += weights[t] * x
				}
			}
			*pixel(d, i) = sum
		}
	}
}
