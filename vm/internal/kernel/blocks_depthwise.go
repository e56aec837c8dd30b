package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blockSlideOf returns the window in the form that slides over images in blocks.
func blockSlideOf(v *form.Window) *gemm.BlockSlide {
	return &gemm.BlockSlide{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
}

// slideBlocks computes an operator on images in blocks band by band. weights has so many
// numbers for each block, and bias as many as there are channels; each may be nil. finish,
// the last step on a band of the output, may be nil.
func slideBlocks(c *Invocation, s *gemm.BlockSlide, weights, bias func(*work.Pool) unsafe.Pointer, finish *Finish) Run {
	x, out := c.In[0], c.Out[0]
	channels, room := x.Shape[1], 0
	var whole, half *slider
	if channels >= gemm.BlockLen {
		whole = newSlider(c, s)
		room = whole.room()
	}
	if channels%gemm.BlockLen > 0 {
		left := *s
		left.Half = true
		half = newSlider(c, &left)
		room = max(room, half.room())
	}
	if room > 0 {
		room = c.Each(room)
	}
	bands, blocks := s.Bands(), cuts(channels, gemm.BlockLen)
	inputs, outputs, taps := s.In[1]*s.In[2], s.Out[1]*s.Out[2], s.Kernel[1]*s.Kernel[2]
	var pool *work.Pool
	var kernels, biases unsafe.Pointer
	part := func(i, worker int) {
		band := i % bands
		image, first, lanes := blockAt(channels, i/bands)
		to, from := element[float32](out, (image*channels+first)*outputs), element[float32](x, (image*channels+first)*inputs)
		slides := whole
		if lanes < gemm.BlockLen {
			slides = half
		}
		s := slides.s
		if s != slides.image {
			padded := pool.Each(worker, room)
			slides.image.Surround(s, padded, from)
			from = padded
		}
		w, b := kernels, biases
		if w != nil {
			w, b = unsafe.Add(w, 4*first*taps), unsafe.Add(b, 4*first)
		}
		s.Band(band, to, from, w, b)
		if finish != nil {
			from, end := s.BandRange(band)
			row := span[float32](unsafe.Add(to, 4*from), end-from)
			for from, end := range c.Pieces(len(row)) {
				finish.Row(row[from:end])
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if weights != nil {
			kernels, biases = weights(w), bias(w)
		}
		w.For(x.Shape[0]*blocks*bands, part)
		return nil
	}
}

// slider is how the blocks of an image of one kind, whole or half, are computed: by sliding over
// the image, or over a copy of it that its padding surrounds.
type slider struct{ image, s *gemm.BlockSlide }

func newSlider(c *Invocation, s *gemm.BlockSlide) *slider {
	l := &slider{s, s}
	if padded := s.Surrounded(); padded != nil && padded.ListLen() > 0 {
		l.s = padded
	}
	l.s.UseList(numbersOf[int](c, l.s.ListLen()))
	return l
}

// room is the size of the copy in bytes; 0: none.
func (l *slider) room() int {
	if l.s == l.image {
		return 0
	}
	return l.s.ImageBytes()
}

// canBlocksDepthwise reports whether makeBlocksDepthwise can compute a Conv.
func canBlocksDepthwise(c *Invocation) bool {
	v, s := depthwiseBlocks(c)
	return v != nil && s.ListLen() > 0 && c.In[1].Const
}

// depthwiseBlocks returns the window of a Conv of single channels of an image in blocks; nil
// for any other Conv, and where vectorDepthwise could not compute it on planes: its sums would
// have other bits.
func depthwiseBlocks(c *Invocation) (*form.Window, *gemm.BlockSlide) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if !fitsHalves(x) || !fitsHalves(out) || weight.Type != out.Type || weight.Rank() != 4 || c.added != nil {
		return nil, nil
	}
	if group := c.Int("group", 1); !singleChannels(weight, group) || x.Shape[1] != group {
		return nil, nil
	}
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], x.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, nil
	}
	d := &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
	if d.ScratchBytes() == 0 {
		return nil, nil
	}
	return v, blockSlideOf(v)
}

// makeBlocksDepthwise is makeConv of single channels on images in blocks.
func makeBlocksDepthwise(c *Invocation) (Run, error) {
	v, s := depthwiseBlocks(c)
	if v == nil || s.ListLen() == 0 {
		return nil, unsupportedf("this Conv of an image in blocks")
	}
	finish := c.weigh(s)
	bias := func(*work.Pool) unsafe.Pointer { return c.In[2].At }
	if !c.Has(2) {
		none := numbersOf[float32](c, c.In[0].Shape[1])
		clear(none)
		bias = func(*work.Pool) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(none)) }
	}
	return slideBlocks(c, s, c.laneWeights(), bias, finish), nil
}

// canBlocksBatchNorm reports whether makeBlocksBatchNorm can compute a BatchNormalization.
func canBlocksBatchNorm(c *Invocation) bool {
	return c.Int("training_mode", 0) == 0 && len(c.Out) == 1 && pointwiseBlocks(c.In[0]).ListLen() > 0
}

// pointwiseBlocks is a kernel of one element over all pixels.
func pointwiseBlocks(x *Tensor) *gemm.BlockSlide {
	image, one := [3]int{1, x.Shape[2], x.Shape[3]}, [3]int{1, 1, 1}
	return &gemm.BlockSlide{In: image, Out: image, Kernel: one, Stride: one, Dilation: one}
}

// makeBlocksBatchNorm is batchNorm by running statistics on images in blocks.
func makeBlocksBatchNorm(c *Invocation) (Run, error) {
	s := pointwiseBlocks(c.In[0])
	weights, bias := normLanes(c)
	return slideBlocks(c, s, weights, bias, c.weigh(s)), nil
}

// normLanes returns functions that return the factors and the shifts of all channels.
func normLanes(c *Invocation) (weights, bias func(*work.Pool) unsafe.Pointer) {
	epsilon, channels := float64(c.Float("epsilon", 1e-5)), c.In[0].Shape[1]
	factors, shifts := c.Shared(4*channels), c.Shared(4*channels)
	weights = func(w *work.Pool) unsafe.Pointer {
		a, b := span[float32](w.Shared(factors), channels), span[float32](w.Shared(shifts), channels)
		means, variances := data[float32](c.In[3]), data[float32](c.In[4])
		for ch := range channels {
			a[ch], b[ch] = normFactors[float32](c, ch, float64(means[ch]), float64(variances[ch]), epsilon)
		}
		return w.Shared(factors)
	}
	return weights, func(w *work.Pool) unsafe.Pointer { return w.Shared(shifts) }
}

// weigh takes the activation of a weighted sum, and returns what is left to apply to it.
func (c *Invocation) weigh(s *gemm.BlockSlide) *Finish {
	finish := c.take()
	var more bool
	if s.Act, s.Low, s.High, more = finish.epilogue(); more {
		return finish
	}
	return nil
}

// laneWeights returns a function that returns the weights [C, 1, taps…] of single channels as
// [C/BlockLen, taps, BlockLen], and those of a last half of a block so behind. Constant ones are arranged once; others, and where no memory
// may be used for them, at each run.
func (c *Invocation) laneWeights() func(*work.Pool) unsafe.Pointer {
	weight := c.In[1]
	channels, taps := weight.Shape[0], count(weight.Shape[2:])
	arrange := func(to unsafe.Pointer) {
		d, s := span[float32](to, weight.Len()), data[float32](weight)
		m := c.Meter()
		for first := 0; first < channels; first += gemm.BlockLen {
			lanes := min(gemm.BlockLen, channels-first)
			m.Add(lanes * taps)
			for lane := range lanes {
				for t := range taps {
					d[first*taps+t*lanes+lane] = s[(first+lane)*taps+t]
				}
			}
		}
	}
	if weight.Packs() {
		key := form.PackKey{At: weight.At, Type: weight.Type, Lanes: true, Len: channels, K: taps}
		if weight.Made != nil {
			key.At, key.Made = nil, weight.Made
		}
		if at, ok := c.Runtime.Pack(key, weight.Bytes(), arrange); ok {
			c.Packed = append(c.Packed, weight)
			return func(*work.Pool) unsafe.Pointer { return at }
		}
	}
	off := c.Shared(weight.Bytes())
	return func(w *work.Pool) unsafe.Pointer {
		arrange(w.Shared(off))
		return w.Shared(off)
	}
}
