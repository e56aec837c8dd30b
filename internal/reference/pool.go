package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var poolOperators = []operator{
	{"MaxPool", maxPool},
	{"AveragePool", averagePool},
	{"LpPool", lpPool},
	{"GlobalLpPool", func(c *call) []*Tensor {
		p := float64(c.int("p", 2))
		return one(c.x(0).overSpace(func(v []float64) float64 { return lpNorm(v, p) }))
	}},
	{"MaxUnpool", maxUnpool},
	{"GlobalAveragePool", func(c *call) []*Tensor { return one(c.x(0).overSpace(mean)) }},
	{"GlobalMaxPool", func(c *call) []*Tensor { return one(c.x(0).overSpace(slices.Max[[]float64])) }},
}

// overSpace reduces all axes but the first two.
func (x *Tensor) overSpace(f func([]float64) float64) *Tensor {
	over := make([]bool, len(x.Shape))
	for k := range over {
		over[k] = k >= 2
	}
	return x.reduced(over, true, f)
}

// maxPool: the first of equal maxima; the indices are flat over the tensor.
func maxPool(c *call) []*Tensor {
	x := c.x(0)
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	shape := slices.Concat(x.Shape[:2], w.out(in, c.int("ceil_mode", 0) != 0))
	y, where := zeros(x.Type, shape), zeros(graph.Int64, shape)
	columns := c.int("storage_order", 0) != 0
	each(shape, func(at []int) {
		best, first := -1, []int(nil)
		each(w.kernel, func(e []int) {
			src, inside := w.source(in, at[2:], e)
			if !inside {
				return
			}
			p := slices.Concat(at[:2], src)
			if i := index(x.Shape, p); best < 0 || x.real(i) > x.real(best) {
				best, first = i, p
			}
		})
		j := index(shape, at)
		if best < 0 {
			y.set(j, math.Inf(-1))
			return
		}
		y.copy(j, x, best)
		where.I[j] = int64(best)
		if columns { // the first spatial axis runs fastest
			i := 0
			for k := len(first) - 1; k >= 2; k-- {
				i = i*x.Shape[k] + first[k]
			}
			where.I[j] = int64(index(x.Shape[:2], first[:2])*size(in) + i)
		}
	})
	return []*Tensor{y, where}
}

// averagePool divides by the elements inside, or with count_include_pad by those
// inside or in the stated padding.
func averagePool(c *call) []*Tensor {
	x := c.x(0)
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	shape := slices.Concat(x.Shape[:2], w.out(in, c.int("ceil_mode", 0) != 0))
	y := zeros(x.Type, shape)
	padded := c.int("count_include_pad", 0) != 0
	each(shape, func(at []int) {
		total, count := 0.0, 0
		each(w.kernel, func(e []int) {
			src, inside := w.source(in, at[2:], e)
			if inside {
				total += x.F[index(x.Shape, slices.Concat(at[:2], src))]
			}
			counts := true
			for k, p := range src {
				counts = counts && (inside || padded && p >= -w.begin[k] && p < in[k]+w.end[k])
			}
			if counts {
				count++
			}
		})
		y.F[index(shape, at)] = total / float64(count)
	})
	return one(y)
}

// lpNorm is the p-th root of the sum of p-th powers.
func lpNorm(v []float64, p float64) float64 {
	return math.Pow(sumOf(v, func(x float64) float64 { return math.Pow(math.Abs(x), p) }), 1/p)
}

func lpPool(c *call) []*Tensor {
	x := c.x(0)
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	shape := slices.Concat(x.Shape[:2], w.out(in, c.int("ceil_mode", 0) != 0))
	y := zeros(x.Type, shape)
	each(shape, func(at []int) {
		var v []float64
		each(w.kernel, func(e []int) {
			if src, inside := w.source(in, at[2:], e); inside {
				v = append(v, x.F[index(x.Shape, slices.Concat(at[:2], src))])
			}
		})
		y.F[index(shape, at)] = lpNorm(v, float64(c.int("p", 2)))
	})
	return one(y)
}

// maxUnpool puts elements where indices, flat over the tensor that was pooled,
// point; a larger output has that tensor in its first corner.
func maxUnpool(c *call) []*Tensor {
	x := c.x(0)
	w := c.window(x.Shape[2:], c.ints("kernel_shape", nil))
	shape := slices.Clone(x.Shape)
	for k := range w.kernel {
		shape[2+k] = (x.Shape[2+k]-1)*w.strides[k] + w.kernel[k] - w.begin[k] - w.end[k]
	}
	pooled := shape
	if c.x(2) != nil {
		shape = c.list(2)
	}
	y := zeros(x.Type, shape)
	for i, flat := range c.x(1).I {
		at, rest := make([]int, len(pooled)), int(flat)
		for k := len(pooled) - 1; k >= 0; k-- {
			at[k], rest = rest%pooled[k], rest/pooled[k]
		}
		y.copy(index(shape, at), x, i)
	}
	return one(y)
}
