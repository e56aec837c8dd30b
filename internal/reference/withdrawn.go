package reference

import "math"

// withdrawnOperators were part of early versions of ONNX.
var withdrawnOperators = []operator{
	{"Affine", real1With(func(c *evaluation) func(float64) float64 {
		alpha, beta := c.float("alpha", 1), c.float("beta", 0)
		c.massOf(0, c.x(0), func(v float64) float64 { return math.Abs(alpha*v) + math.Abs(beta) })
		return func(v float64) float64 { return alpha*v + beta }
	})},
	{"Crop", func(c *evaluation) []*Tensor {
		x, border, size := c.x(0), c.ints("border", nil), c.ints("scale", nil)
		if size == nil {
			size = []int{x.Shape[2] - border[1] - border[3], x.Shape[3] - border[0] - border[2]}
		}
		return one(x.moved([]int{x.Shape[0], x.Shape[1], size[0], size[1]}, func(at, src []int) bool {
			copy(src, at)
			src[2] += border[1]
			src[3] += border[0]
			return true
		}))
	}},
	{"Scale", real1With(func(c *evaluation) func(float64) float64 {
		scale := c.float("scale", 1)
		return func(v float64) float64 { return scale * v }
	})},
	{"ScaledTanh", real1With(func(c *evaluation) func(float64) float64 {
		alpha, beta := c.float("alpha", 1), c.float("beta", 1)
		return func(v float64) float64 { return alpha * math.Tanh(beta*v) }
	})},
	{"ParametricSoftplus", real1With(func(c *evaluation) func(float64) float64 {
		alpha, beta := c.float("alpha", 1), c.float("beta", 1)
		return func(v float64) float64 { return alpha * softplus(beta*v) }
	})},
	{"ImageScaler", func(c *evaluation) []*Tensor {
		x, scale, bias := c.x(0), c.float("scale", 1), c.attr("bias").Floats
		plane := x.Shape[2] * x.Shape[3]
		y := zeros(x.Type, x.Shape)
		mass := make([]float64, len(y.F))
		for i, v := range x.F {
			plus := float64(bias[i/plane%len(bias)])
			y.F[i] = scale*v + plus
			mass[i] = math.Abs(scale*v) + math.Abs(plus)
		}
		c.terms(0, mass)
		return one(y)
	}},
}
