package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// quantizeOperators convert between reals and their quantized form.
var quantizeOperators = []operator{
	{"QuantizeLinear", quantizeLinear},
	{"DequantizeLinear", dequantizeLinear},
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

// contribQuantizeOperators are ONNX Runtime's quantizers and its operators on quantized
// tensors: each tensor is followed by its scale and its zero point.
var contribQuantizeOperators = []operator{
	{"QuantizeLinear", quantizeLinear},
	{"DequantizeLinear", dequantizeLinear},
	{"QLinearAdd", func(c *evaluation) []*Tensor {
		a, b := c.dequantized(0), c.dequantized(3)
		y := c.requantized(plus(a, b), 6)
		shape := y.Shape
		for i, v := range plus(a.each(math.Abs), b.each(math.Abs)).spread(shape).F {
			c.bounds[0].mass[i] = v / c.x(6).F[0]
		}
		return one(y)
	}},
	{"QLinearMul", func(c *evaluation) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(3).Shape)
		y, b := c.dequantized(0).spread(shape), c.dequantized(3).spread(shape)
		for i := range y.F {
			y.F[i] *= b.F[i]
		}
		return one(c.requantized(y, 6))
	}},
	{"QLinearSigmoid", func(c *evaluation) []*Tensor { return one(c.requantized(c.dequantized(0).each(sigmoid), 3)) }},
	{"QLinearLeakyRelu", func(c *evaluation) []*Tensor {
		alpha := c.float("alpha", float64(float32(0.01)))
		return one(c.requantized(c.dequantized(0).each(func(v float64) float64 { return branch(v > 0, v, alpha*v) }), 3))
	}},
	{"QLinearSoftmax", func(c *evaluation) []*Tensor {
		x := c.dequantized(0)
		axis, flat := 0, x
		if c.int("opset", 13) < 13 {
			a := c.axis("axis", 1, len(x.Shape))
			axis, flat = 1, x.shaped(size(x.Shape[:a]), size(x.Shape[a:]))
		} else {
			axis = c.axis("axis", -1, len(x.Shape))
		}
		inverse := math.Floor(float64(float32(1 / c.x(3).F[0]))) // as in ONNX Runtime
		y := flat.alongAxis(axis, func(v, sum float64) float64 { return math.Exp(v) / sum * inverse })
		return one(c.quantized(0, c.x(0).Type, x.Shape, y.F, c.x(4).shaped().spread(x.Shape)))
	}},
	{"QLinearWhere", func(c *evaluation) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape, c.x(4).Shape)
		cond, y, b := c.x(0).spread(shape), c.dequantized(1).spread(shape), c.dequantized(4).spread(shape)
		for i, v := range cond.I {
			if v == 0 {
				y.F[i] = b.F[i]
			}
		}
		return one(c.requantized(y, 7))
	}},
	{"QLinearConcat", func(c *evaluation) []*Tensor {
		var parts []*Tensor
		for i := 2; i < len(c.in); i += 3 {
			parts = append(parts, c.dequantized(i))
		}
		return one(c.requantized(concat(c.axis("axis", 0, len(parts[0].Shape)), parts...), 0))
	}},
	{"QLinearAveragePool", func(c *evaluation) []*Tensor {
		return c.pooled(averagePool)
	}},
	{"QLinearGlobalAveragePool", func(c *evaluation) []*Tensor {
		return c.pooled(func(c *evaluation) []*Tensor { return one(c.x(0).overSpace(mean)) })
	}},
}

func quantizeLinear(c *evaluation) []*Tensor {
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
}

func dequantizeLinear(c *evaluation) []*Tensor {
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
}

// dequantized returns the reals that input i represents.
func (c *evaluation) dequantized(i int) *Tensor {
	scale := c.x(i + 1).F[0]
	return c.x(i).less(c.x(i + 2)).each(func(v float64) float64 { return v * scale })
}

// requantized returns reals as integers; inputs i and i+1 are their scale and zero point.
func (c *evaluation) requantized(y *Tensor, i int) *Tensor {
	scale, zero := c.x(i).F[0], c.x(i+1)
	to := c.x(max(i-3, 0)).Type // without a zero point, that of the tensor before
	if zero != nil {
		to, zero = zero.Type, zero.shaped().spread(y.Shape)
	}
	near := make([]float64, len(y.F))
	for k, v := range y.F {
		near[k] = v / scale
	}
	return c.quantized(0, to, y.Shape, near, zero)
}

// pooled pools the reals that input 0 represents; inputs 3 and 4 are the scale and zero
// point of the output.
func (c *evaluation) pooled(pool func(*evaluation) []*Tensor) []*Tensor {
	x := c.dequantized(0)
	last := c.int("channels_last", 0) != 0
	if last {
		x = x.permuted(channelsFirst(len(x.Shape))...)
	}
	y := pool(&evaluation{Node: c.Node, scope: c.scope, in: []*Tensor{x}})[0]
	if last {
		y = y.permuted(channelsLast(len(y.Shape))...)
	}
	return one(c.requantized(y, 3))
}

// channelsFirst and channelsLast are the permutations that move the channels of an image.
func channelsFirst(rank int) []int {
	perm := []int{0, rank - 1}
	for k := 1; k < rank-1; k++ {
		perm = append(perm, k)
	}
	return perm
}

func channelsLast(rank int) []int {
	perm := []int{0}
	for k := 2; k < rank; k++ {
		perm = append(perm, k)
	}
	return append(perm, 1)
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
