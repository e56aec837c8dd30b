package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// batchNormHalf is batchNorm of an image of 16 bits with scale, shift and statistics of float32:
// it widens the planes of a channel as it reads them, and rounds what it writes. It returns nil for
// others.
func batchNormHalf(c *Invocation) Run {
	x, out := c.In[0], c.Out[0]
	if !isHalf(x) || !isHalf(out) || x.Rank() < 2 {
		return nil
	}
	for _, t := range c.In[1:5] {
		if t.Type != graph.Float32 {
			return nil
		}
	}
	switch x.Layout {
	case form.Plain:
	case form.NCHW16c:
		return blocksBatchNormHalf(c)
	default:
		return nil
	}
	epsilon, momentum := float64(c.Float("epsilon", 1e-5)), float64(c.Float("momentum", 0.9))
	training := c.Int("training_mode", 0) != 0
	images, channels, n := x.Shape[0], x.Shape[1], count(x.Shape[2:])
	kept := 1
	if images*n <= 2*mostKept {
		kept = images
	}
	each := c.Each(mul(4, kept, n))
	finish := c.take()
	var pool *work.Pool
	part := func(ch, worker int) {
		plane := func(image int, again bool) []float32 {
			wide := span[float32](pool.Each(worker, each+4*(image%kept)*n), n)
			if !again || kept < images {
				from := span[uint16](element[uint16](x, (image*channels+ch)*n), n)
				for i, j := range c.Pieces(n) {
					simd.Widen(wide[i:j], from[i:j], narrowType(x.Type))
				}
			}
			return wide
		}
		mean, variance := float64(data[float32](c.In[3])[ch]), float64(data[float32](c.In[4])[ch])
		if training {
			batchMean, batchVariance, total := 0.0, 0.0, float64(images*n)
			for i := range images {
				batchMean += sumOf(c, plane(i, false))
			}
			batchMean /= total
			for i := range images {
				batchVariance += squaresOf(c, plane(i, true), batchMean)
			}
			batchVariance /= total
			putStatistics(c, ch, mean*momentum+batchMean*(1-momentum), variance*momentum+batchVariance*(1-momentum))
			mean, variance = batchMean, batchVariance
		}
		a, b := normFactors[float32](c, ch, mean, variance, epsilon)
		for image := range images {
			wide := plane(image, training)
			to := span[uint16](element[uint16](out, (image*channels+ch)*n), n)
			for i, j := range c.Pieces(n) {
				simd.Affine(wide[i:j], wide[i:j], a, b)
				if finish != nil {
					finish.Row(wide[i:j])
				}
				simd.Round(to[i:j], wide[i:j], narrowType(out.Type))
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(channels, part)
		return nil
	}
}

// putStatistics writes the optional running statistics of a channel.
func putStatistics(c *Invocation, ch int, mean, variance float64) {
	if c.HasOut(1) {
		data[float32](c.Out[1])[ch] = float32(mean)
	}
	if c.HasOut(2) {
		data[float32](c.Out[2])[ch] = float32(variance)
	}
}

// blocksBatchNormHalf is batchNormHalf by running statistics on images in blocks: the pixels of a
// band are widened, weighed in place and rounded.
func blocksBatchNormHalf(c *Invocation) Run {
	x, out := c.In[0], c.Out[0]
	s := pointwiseBlocks(x)
	if s.ListLen() == 0 || c.Int("training_mode", 0) != 0 {
		return nil
	}
	weights, bias := normLanes(c)
	if c.weigh(s) != nil {
		return nil // it clamps: no other activation is applied to 16 bits
	}
	channels, pixels := x.Shape[1], s.In[1]*s.In[2]
	whole, half := newSlider(c, s).s, (*gemm.BlockSlide)(nil)
	if channels%gemm.BlockLen > 0 {
		left := *s
		left.Half = true
		half = newSlider(c, &left).s
	}
	each := c.Each(mul(4, pixels, gemm.BlockLen))
	bands, blocks := s.Bands(), cuts(channels, gemm.BlockLen)
	var pool *work.Pool
	var factors, shifts unsafe.Pointer
	part := func(i, worker int) {
		image, first, lanes := blockAt(channels, i/bands)
		by := whole
		if lanes < gemm.BlockLen {
			by = half
		}
		from, end := by.BandRange(i % bands)
		at, room := (image*channels+first)*pixels, pool.Each(worker, each)
		wide := span[float32](unsafe.Add(room, 4*from), end-from)
		simd.Widen(wide, span[uint16](element[uint16](x, at+from), end-from), narrowType(x.Type))
		by.Band(i%bands, room, room, unsafe.Add(factors, 4*first), unsafe.Add(shifts, 4*first))
		simd.Round(span[uint16](element[uint16](out, at+from), end-from), wide, narrowType(out.Type))
	}
	return func(w *work.Pool) error {
		pool = w
		factors, shifts = weights(w), bias(w)
		w.For(x.Shape[0]*blocks*bands, part)
		return nil
	}
}
