package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// poolOperators reduce windows of an image.
var poolOperators = []operator{
	{"MaxPool", maxPool},
	{"AveragePool", averagePool},
	{"LpPool", lpPool},
	{"GlobalLpPool", func(c *evaluation) []*Tensor {
		p := float64(c.int("p", 2))
		return one(c.x(0).overSpace(func(v []float64) float64 { return lpNorm(v, p) }))
	}},
	{"MaxUnpool", maxUnpool},
	{"GlobalAveragePool", func(c *evaluation) []*Tensor {
		c.sums(0, c.x(0).overSpace(func(v []float64) float64 { return total(v) / float64(len(v)) }).F, size(c.x(0).Shape[2:]))
		return one(c.x(0).overSpace(mean))
	}},
	{"GlobalMaxPool", chosen(func(c *evaluation) []*Tensor { return one(c.x(0).overSpace(slices.Max[[]float64])) })},
}

// overSpace reduces all axes but the first two.
func (x *Tensor) overSpace(f func([]float64) float64) *Tensor {
	over := make([]bool, len(x.Shape))
	for k := range over {
		over[k] = k >= 2
	}
	return x.reduced(over, true, f)
}

// maxPool takes the first of equal maxima; indices are flat over the whole tensor.
func maxPool(c *evaluation) []*Tensor {
	x := c.x(0)
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	out := w.out(in, c.int("ceil_mode", 0) != 0)
	shape := slices.Concat(x.Shape[:2], out)
	y, where := zeros(x.Type, shape), zeros(graph.Int64, shape)
	columns := c.int("storage_order", 0) != 0
	open := make([]bool, size(shape))
	parallel(size(x.Shape[:2]), func(plane int) {
		best := filled(-1, size(out))
		first := plane * size(in)
		each(w.kernel, func(e []int) {
			w.slide(in, out, e, func(to, from, n, step int) {
				for k := range n {
					if i := first + from + k*step; best[to+k] < 0 || x.order(i, x, best[to+k]) == 1 {
						best[to+k] = i
					}
				}
			})
		})
		for o, i := range best {
			j := plane*size(out) + o
			if open[j] = i < 0; i < 0 {
				y.set(j, math.Inf(-1)) // the window lies outside the image
				continue
			}
			y.copy(j, x, i)
			where.I[j] = int64(i)
			if columns { // the first spatial axis varies fastest
				at, rest := 0, i-first
				place := make([]int, len(in))
				for k := len(in) - 1; k >= 0; k-- {
					place[k], rest = rest%in[k], rest/in[k]
				}
				for k := len(in) - 1; k >= 0; k-- {
					at = at*in[k] + place[k]
				}
				where.I[j] = int64(first + at)
			}
		}
	})
	*c.bounded(1) = bound{open: open}
	*c.bounded(0) = bound{open: open, exact: true}
	return []*Tensor{y, where}
}

// averagePool divides by the number of elements in the image, or with count_include_pad
// by the number in the image and its padding.
func averagePool(c *evaluation) []*Tensor {
	x := c.x(0)
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	out := w.out(in, c.int("ceil_mode", 0) != 0)
	y := zeros(x.Type, slices.Concat(x.Shape[:2], out))
	mass, open := make([]float64, len(y.F)), make([]bool, len(y.F))
	padded := c.int("count_include_pad", 0) != 0
	counts := make([]int, 0, size(out))
	each(out, func(o []int) {
		count := 1
		for k, p := range o {
			n := 0
			for e := range w.kernel[k] {
				at := p*w.strides[k] - w.begin[k] + e*w.dilations[k]
				if at >= 0 && at < in[k] || padded && at >= -w.begin[k] && at < in[k]+w.end[k] {
					n++
				}
			}
			count *= n
		}
		counts = append(counts, count)
	})
	parallel(size(x.Shape[:2]), func(plane int) {
		xx, yy, mm := x.F[plane*size(in):], y.F[plane*size(out):], mass[plane*size(out):]
		each(w.kernel, func(e []int) {
			w.slide(in, out, e, func(to, from, n, step int) {
				for k := range n {
					yy[to+k] += xx[from+k*step]
					mm[to+k] += math.Abs(xx[from+k*step])
				}
			})
		})
		for o, n := range counts {
			yy[o] /= float64(n)
			mm[o] /= float64(n)
			open[plane*size(out)+o] = n == 0 // the window lies outside the image
		}
	})
	c.bounded(0).open = open
	c.sums(0, mass, size(w.kernel))
	return one(y)
}

// lpNorm returns the p-th root of the sum of p-th powers.
func lpNorm(v []float64, p float64) float64 {
	return math.Pow(sumOf(v, func(x float64) float64 { return math.Pow(math.Abs(x), p) }), 1/p)
}

func lpPool(c *evaluation) []*Tensor {
	x, p := c.x(0), float64(c.int("p", 2))
	in := x.Shape[2:]
	w := c.window(in, c.ints("kernel_shape", nil))
	out := w.out(in, c.int("ceil_mode", 0) != 0)
	y := zeros(x.Type, slices.Concat(x.Shape[:2], out))
	for plane := range size(x.Shape[:2]) {
		yy := y.F[plane*size(out):][:size(out)]
		each(w.kernel, func(e []int) {
			w.slide(in, out, e, func(to, from, n, step int) {
				for k := range n {
					yy[to+k] += math.Pow(math.Abs(x.F[plane*size(in)+from+k*step]), p)
				}
			})
		})
		for o, v := range yy {
			yy[o] = math.Pow(v, 1/p)
		}
	}
	return one(y)
}

// maxUnpool writes elements to indices that are flat over the tensor before pooling. If
// the output is larger than that tensor, the tensor is at its origin.
func maxUnpool(c *evaluation) []*Tensor {
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
	c.bounded(0).exact = true
	return one(y)
}
