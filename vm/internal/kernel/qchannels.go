package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Squeeze-and-excitation averages each channel of an image, and multiplies the image by a
// number for each channel. Of quantized images, it does so in NCHW or in NHWC.

// IsChannels reports whether b is a tensor with an element for each channel of an image, in
// each or all of its images; that tensor is the same in NHWC and in NCHW.
func IsChannels(b, image *Tensor) bool {
	s, t := b.Shape, image.Shape
	return len(s) == 4 && len(t) == 4 && (s[0] == t[0] || s[0] == 1) && s[1] == t[1] && s[2] == 1 && s[3] == 1 && t[2]*t[3] > 1
}

// makeQLinearGlobalAveragePool adds up the integers of each channel, exactly.
func makeQLinearGlobalAveragePool(c *Invocation) (Run, error) {
	list, err := c.quantities(3, 0)
	if err != nil {
		return nil, err
	}
	x, y := list[0], list[1]
	images, channels, n := x.x.Shape[0], x.x.Shape[1], count(x.x.Shape[2:])
	pixels := x.x.Layout == form.NHWC
	if c.Int("channels_last", 0) != 0 {
		last := x.x.Rank() - 1
		pixels, channels, n = true, x.x.Shape[last], count(x.x.Shape[1:last])
	}
	const width = 64 // channels: a line of the cache
	// write writes the means of channels from i on.
	write := func(i int, sums []uint64) {
		zero, step := int64(x.bytes().Zero), float64(x.step())
		if x.signed {
			zero += 128 // the sums are of the bytes as unsigned numbers, each 128 larger
		}
		var means [width]float32
		for k, sum := range sums {
			means[k] = float32(float64(int64(sum)-int64(n)*zero) * step / float64(n))
		}
		simd.Quantize(span[byte](element[byte](y.x, i), len(sums)), means[:len(sums)], y.step(), y.bytes())
	}
	if !pixels {
		planes := images * channels
		group := min(width, max(1, grain/max(1, n)))
		part := func(p, _ int) {
			var sums [width]uint64
			m, first := c.Meter(), p*group
			some := sums[:min(group, planes-first)]
			for k := range some {
				for i := 0; i < n; {
					end := m.Next(i, n)
					some[k] += simd.SumBytes(span[byte](element[byte](x.x, (first+k)*n+i), end-i), x.signed)
					i = end
				}
			}
			write(first, some)
		}
		return func(w *work.Pool) error {
			w.For(cuts(planes, group), part)
			return nil
		}, nil
	}
	parts := cuts(channels, width)
	part := func(p, _ int) {
		first := p % parts * width
		image, wide, m := p/parts, min(width, channels-first), c.Meter()
		var sums [width]uint64
		for i := 0; i < n; i += simd.MostRows {
			rows := min(simd.MostRows, n-i)
			m.Add(rows * wide)
			at := (image*n+i)*channels + first
			simd.AddColumns(sums[:wide], span[byte](element[byte](x.x, at), (rows-1)*channels+wide), rows, channels, x.signed)
		}
		write(image*channels+first, sums[:wide])
	}
	return func(w *work.Pool) error {
		w.For(images*parts, part)
		return nil
	}, nil
}

// acrossPixels is a commutative operation between an image in NHWC and a number for each
// channel. The reals of the numbers are repeated, so that many pixels are computed at once.
func acrossPixels(c *Invocation, y, image, numbers *quantity, op func(d, a, b []float32)) Run {
	const atOnce = 1024 // elements, if a pixel has no more
	channels, n := y.x.Shape[1], count(y.x.Shape[2:])
	some := max(1, atOnce/max(1, channels)) // pixels
	block := mul(some, channels)
	perImage := 0
	if numbers.x.Shape[0] > 1 {
		perImage = channels
	}
	rows := max(1, grain/max(1, block)) * some // pixels of a part
	parts := cuts(n, rows)
	each := c.Each(mul(8, block))
	var pool *work.Pool
	part := func(p, worker int) {
		i, from := p/parts, p%parts*rows
		end := min(from+rows, n)
		scratch := pool.Each(worker, each)
		reals, factors := span[float32](scratch, block), span[float32](unsafe.Add(scratch, 4*block), block)
		simd.Dequantize(factors[:channels], span[byte](element[byte](numbers.x, i*perImage), channels), numbers.step(), numbers.bytes())
		for k := channels; k < min(block, (end-from)*channels); k += channels {
			copy(factors[k:k+channels], factors)
		}
		m := c.Meter()
		for ; from < end; from += some {
			length, at := min(some, end-from)*channels, (i*n+from)*channels
			m.Add(length)
			d := reals[:length]
			simd.Dequantize(d, span[byte](element[byte](image.x, at), length), image.step(), image.bytes())
			op(d, d, factors[:length])
			simd.Quantize(span[byte](element[byte](y.x, at), length), d, y.step(), y.bytes())
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(y.x.Shape[0]*parts, part)
		return nil
	}
}
