package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// response is a local response normalization: each element is divided by a power of
// bias + alpha/size times the sum of squares over neighbouring channels.
type response[T floating] struct {
	size, channels, pixels int
	alpha, beta, bias      float64 // alpha is over size
}

// responseBlock is the number of pixels whose sums stay in the fastest cache.
const responseBlock = 256

func lrn[T floating](c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	r := response[T]{
		size: c.Int("size", 1), channels: x.Shape[1], pixels: count(x.Shape[2:]),
		beta: float64(c.Float("beta", 0.75)), bias: float64(c.Float("bias", 1)),
	}
	r.alpha = float64(c.Float("alpha", 1e-4)) / float64(r.size)
	part := func(p, _ int) {
		image, ch := p/r.channels, p%r.channels
		s := data[T](x)[image*r.channels*r.pixels : (image+1)*r.channels*r.pixels]
		d := span[T](element[T](out, p*r.pixels), r.pixels)
		m := c.Meter()
		from, to := r.around(ch)
		passes := to - from + 1
		for first := 0; first < r.pixels; first += responseBlock {
			block := d[first:min(first+responseBlock, r.pixels)]
			m.Add(len(block) * passes)
			if singles, ok := any(s).([]float32); ok && r.beta == 0.75 {
				r.quick(any(block).([]float32), singles, ch, first)
				continue
			}
			for i := range block {
				block[i] = r.exact(s, ch, first+i)
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*r.channels, part)
		return nil
	}, nil
}

// around returns the channels whose squares are added up for a channel, and the one behind them.
func (r *response[T]) around(ch int) (from, to int) {
	return max(0, ch-(r.size-1)/2), min(r.channels, ch+r.size/2+1)
}

// quick computes a block of a channel, whose pixels begin at first, in float32 and with square roots in
// the place of powers. Where a sum exceeds float32, or is so small that squares that were lost may
// count, it is exact: that depends on the pixel alone, wherever the block begins.
func (r *response[T]) quick(d, x []float32, ch, first int) {
	const least, most = 1e-20, math.MaxFloat32
	var sums, squares, roots [responseBlock]float32
	sum, square, root := sums[:len(d)], squares[:len(d)], roots[:len(d)]
	row := func(ch int) []float32 { return x[ch*r.pixels+first:][:len(d)] }
	from, to := r.around(ch)
	for k := from; k < to; k++ {
		simd.Mul(square, row(k), row(k))
		simd.Add(sum, sum, square)
	}
	simd.MulScalar(sum, sum, float32(r.alpha))
	simd.AddScalar(sum, sum, float32(r.bias))
	simd.Sqrt(root, sum)
	simd.Sqrt(square, root)
	simd.Mul(root, root, square)
	simd.Div(d, row(ch), root)
	if r.bias >= least && simd.Highest(sum) <= most && simd.Lowest(sum) >= least {
		return
	}
	singles := response[float32](*r)
	for i, v := range sum {
		if !(r.bias >= least && v >= least && v <= most) {
			d[i] = singles.exact(x, ch, first+i)
		}
	}
}

// exact computes a pixel of a channel in float64.
func (r *response[T]) exact(x []T, ch, pixel int) T {
	sum := 0.0
	from, to := r.around(ch)
	for k := from; k < to; k++ {
		v := float64(x[k*r.pixels+pixel])
		sum += v * v
	}
	return T(float64(x[ch*r.pixels+pixel]) / math.Pow(r.bias+r.alpha*sum, r.beta))
}
