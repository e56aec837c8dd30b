package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// quantizeOperators convert between reals and their quantized form.
var quantizeOperators = []operator{
	{"QuantizeLinear", func(c *evaluation) []*Tensor {
		x := c.x(0)
		to := graph.DType(c.int("output_dtype", 0))
		switch {
		case c.x(2) != nil:
			to = c.x(2).Type
		case to == graph.Undefined:
			to = graph.Uint8
		}
		scale, zero := c.x(1).blocked(c, x.Shape), c.x(2).blocked(c, x.Shape)
		near := make([]float64, size(x.Shape))
		for i := range near {
			near[i] = quotient(x, i, scale.real(i))
		}
		return one(c.quantized(0, to, x.Shape, near, zero))
	}},
	{"DequantizeLinear", func(c *evaluation) []*Tensor {
		x := c.x(0)
		scale, zero := c.x(1).blocked(c, x.Shape), c.x(2).blocked(c, x.Shape)
		y := zeros(graph.DType(c.int("output_dtype", int(scale.Type))), x.Shape)
		for i := range y.F {
			y.F[i] = x.real(i) * scale.F[i]
			if zero != nil {
				y.F[i] = (x.real(i) - zero.real(i)) * scale.F[i]
			}
		}
		return one(y)
	}},
	{"DynamicQuantizeLinear", func(c *evaluation) []*Tensor {
		x := c.x(0)
		low, high := 0.0, 0.0
		for _, v := range x.F {
			low, high = min(low, v), max(high, v)
		}
		// The scale is rounded before the division.
		scale := float64(float32((high - low) / 255))
		zero := c.quantized(2, graph.Uint8, []int{}, []float64{float64(float32(-low / branch(scale == 0, 1, scale)))}, nil)
		near := make([]float64, len(x.F))
		for i := range near {
			near[i] = quotient(x, i, branch(scale == 0, 1, scale))
		}
		y := c.quantized(0, graph.Uint8, x.Shape, near, zero.spread(x.Shape))
		return []*Tensor{y, {Type: graph.Float32, Shape: []int{}, F: []float64{scale}}, zero}
	}},
}

// quotient returns element i divided by a scale, in the type of the element, from which
// it is then rounded to an integer.
func quotient(x *Tensor, i int, scale float64) float64 {
	if x.Type == graph.Float32 {
		return float64(float32(x.F[i] / scale))
	}
	return x.real(i) / scale
}

// blocked broadcasts scales or zero points to a shape: one for all elements, one for each
// index along attribute axis, or one for each block of block_size indices.
func (x *Tensor) blocked(c *evaluation, shape []int) *Tensor {
	switch {
	case x == nil:
		return nil
	case size(x.Shape) == 1 && len(x.Shape) < 2:
		return x.shaped().spread(shape)
	}
	axis := c.axis("axis", 1, len(shape))
	block := c.int("block_size", 0)
	return x.moved(shape, func(at, src []int) bool {
		if block == 0 {
			src[0] = at[axis]
			return true
		}
		copy(src, at)
		src[axis] /= block
		return true
	})
}

// quantized rounds to the integer type of output k, ties to even, adds the zero points
// and saturates. Floating-point types of a byte have no zero points.
func (c *evaluation) quantized(k int, to graph.DType, shape []int, near []float64, zero *Tensor) *Tensor {
	y := zeros(to, shape)
	if isFloat(to) {
		m := minifloats[to]
		for i, v := range near {
			if y.F[i] = v; math.Abs(v) > m.most() {
				y.F[i] = m.nearest(v, c.int("saturate", 1) != 0 || to == graph.Float4E2M1)
			}
		}
		return y
	}
	low, high := limits(to)
	cut := func(v float64) float64 { return min(max(v, float64(low)), float64(high)) }
	before, mass := make([]float64, len(near)), make([]float64, len(near))
	for i, v := range near {
		z := 0.0
		if zero != nil {
			z = zero.real(i)
		}
		y.I[i] = int64(cut(math.RoundToEven(v) + z))
		before[i], mass[i] = cut(v+z), math.Abs(v)
	}
	*c.bounded(k) = bound{near: before, mass: mass}
	return y
}

// most returns the largest finite value.
func (m *minifloat) most() float64 {
	most := 0.0
	for _, v := range m.values {
		if !math.IsInf(v, 0) {
			most = math.Max(most, branch(math.IsNaN(v), 0, v))
		}
	}
	return most
}
