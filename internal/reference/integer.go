package reference

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// integerOperators are the matrix products and convolutions of 8-bit integers.
var integerOperators = []operator{
	{"MatMulInteger", func(c *evaluation) []*Tensor {
		y, _ := matmul(c.x(0).less(c.rowsOf(2, 0)), c.x(1).less(c.x(3)))
		return one(y.wholes(graph.Int32))
	}},
	{"QLinearMatMul", func(c *evaluation) []*Tensor {
		y, _ := matmul(c.x(0).less(c.rowsOf(2, 0)), c.x(3).less(c.x(5)))
		left, right := c.rowsOf(1, 0), c.x(4)
		if len(y.Shape) >= 2 {
			left, right = left.spread(y.Shape), right.spread(y.Shape)
		}
		near := make([]float64, len(y.F))
		for i, v := range y.F {
			near[i] = v * left.F[i%len(left.F)] * right.F[i%len(right.F)] / c.x(6).F[0]
		}
		return one(c.quantized(0, c.x(7).Type, y.Shape, near, c.x(7).shaped().spread(y.Shape)))
	}},
	{"ConvInteger", func(c *evaluation) []*Tensor {
		y, _ := c.convolved(c.x(0).less(c.x(2)), c.x(1).less(c.firstAxis(3, c.x(1))), nil)
		return one(y.wholes(graph.Int32))
	}},
	{"QLinearConv", func(c *evaluation) []*Tensor { return one(c.qlinearConv(c.x(0), nil)) }},
}

// qlinearConv convolves an image of integers; leave, if not nil, permutes the result.
func (c *evaluation) qlinearConv(x *Tensor, leave []int) *Tensor {
	var bias []float64
	if c.x(8) != nil {
		bias = c.x(8).reals().F
	}
	y, _ := c.convolved(x.less(c.x(2)), c.x(3).less(c.firstAxis(5, c.x(3))), bias)
	for i := range y.F {
		channel := i / size(y.Shape[2:]) % y.Shape[1]
		y.F[i] *= c.x(1).F[0] * c.x(4).F[channel%len(c.x(4).F)] / c.x(6).F[0]
	}
	if leave != nil {
		y = y.permuted(leave...)
	}
	return c.quantized(0, c.x(7).Type, y.Shape, y.F, c.x(7).shaped().spread(y.Shape))
}

// rowsOf returns input i; if it is a list, it has one element for each row of input a.
func (c *evaluation) rowsOf(i, a int) *Tensor {
	if z := c.x(i); z == nil || len(z.Shape) != 1 || len(c.x(a).Shape) < 2 {
		return z
	}
	return c.x(i).shaped(c.x(i).Shape[0], 1)
}

// firstAxis returns input i: one element for all of x, or one for each index of its
// first axis.
func (c *evaluation) firstAxis(i int, x *Tensor) *Tensor {
	z := c.x(i)
	if z == nil || size(z.Shape) == 1 {
		return z
	}
	return z.shaped(slices.Concat([]int{size(z.Shape)}, filled(1, len(x.Shape)-1))...)
}

// less returns x minus its zero points, which broadcast to it, as reals; nil means no
// zero points.
func (x *Tensor) less(zero *Tensor) *Tensor {
	y := zeros(graph.Float64, x.Shape)
	if zero != nil {
		if size(zero.Shape) == 1 {
			zero = zero.shaped()
		}
		zero = zero.spread(x.Shape)
	}
	for i := range y.F {
		y.F[i] = x.real(i)
		if zero != nil {
			y.F[i] -= zero.real(i)
		}
	}
	return y
}

// wholes returns x, which has integral values, as integers of a type in which sums wrap.
func (x *Tensor) wholes(t graph.DType) *Tensor {
	y := zeros(t, x.Shape)
	for i, v := range x.F {
		y.I[i] = wrap(t, int64(v))
	}
	return y
}
