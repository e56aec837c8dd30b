package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// activationOperators are the activation functions of neural networks.
var activationOperators = []operator{
	{"Relu", chosen(signed(func(v float64) float64 { return max(v, 0) }, func(v int64) int64 { return max(v, 0) }, sameUnsigned))},
	{"LeakyRelu", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", 0.01)
		return func(v float64) float64 { return branch(v > 0, v, alpha*v) }
	})},
	{"ThresholdedRelu", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", 1)
		return func(v float64) float64 { return branch(v > alpha, v, 0) }
	})},
	{"Elu", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", 1)
		return func(v float64) float64 { return branch(v > 0, v, alpha*math.Expm1(v)) }
	})},
	{"Celu", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", 1)
		return func(v float64) float64 { return math.Max(0, v) + math.Min(0, alpha*math.Expm1(v/alpha)) }
	})},
	{"Selu", real1With(func(c *evaluation) func(float64) float64 {
		alpha, gamma := c.float("alpha", float64(float32(1.67326319217681884765625))), c.float("gamma", float64(float32(1.05070102214813232421875)))
		return func(v float64) float64 { return gamma * branch(v > 0, v, alpha*math.Expm1(v)) }
	})},
	{"Gelu", func(c *evaluation) []*Tensor {
		// 1 + erf(v) cancels where v is negative.
		c.massOf(0, c.x(0), math.Abs)
		if c.str("approximate", "none") == "tanh" {
			return one(c.x(0).each(tanhGelu))
		}
		return one(c.x(0).each(gelu))
	}},
	{"Mish", real1(func(v float64) float64 { return v * math.Tanh(softplus(v)) })},
	{"Swish", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", 1)
		return func(v float64) float64 { return v * sigmoid(alpha*v) }
	})},
	{"Sigmoid", real1(sigmoid)},
	{"HardSigmoid", real1With(func(c *evaluation) func(float64) float64 {
		alpha, beta := c.float("alpha", float64(float32(0.2))), c.float("beta", 0.5)
		c.massOf(0, c.x(0), func(v float64) float64 { return math.Abs(alpha*v) + math.Abs(beta) })
		return func(v float64) float64 { return math.Max(0, math.Min(1, alpha*v+beta)) }
	})},
	{"HardSwish", func(c *evaluation) []*Tensor {
		c.massOf(0, c.x(0), func(v float64) float64 { return math.Abs(v) * (math.Abs(v)/6 + 0.5) })
		return one(c.x(0).each(hardSwish))
	}},
	{"Tanh", real1(math.Tanh)},
	{"Softplus", real1(softplus)},
	{"Softsign", real1(func(v float64) float64 { return v / (1 + math.Abs(v)) })},
	{"Shrink", func(c *evaluation) []*Tensor {
		lambd, bias := c.float("lambd", 0.5), c.float("bias", 0)
		return one(c.x(0).each(func(v float64) float64 {
			switch {
			case v < -lambd:
				return v + bias
			case v > lambd:
				return v - bias
			}
			return 0
		}))
	}},
	{"PRelu", func(c *evaluation) []*Tensor {
		x := c.x(0)
		s := c.x(1).spread(x.Shape)
		y := zeros(x.Type, x.Shape)
		for i := range size(x.Shape) {
			y.set(i, branch(x.real(i) > 0, x.real(i), s.real(i)*x.real(i)))
		}
		return one(y)
	}},
	{"Clip", clip},
	{"Dropout", dropout},
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func softplus(v float64) float64 { return math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) }

func hardSwish(v float64) float64 { return v * math.Max(0, math.Min(1, v/6+0.5)) }

func gelu(v float64) float64 { return 0.5 * v * (1 + math.Erf(v/math.Sqrt2)) }

func tanhGelu(v float64) float64 {
	return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
}

// clip reads its bounds from attributes up to opset 10, from inputs since.
func clip(c *evaluation) []*Tensor {
	y := c.x(0).clone()
	low, high := (*Tensor)(nil), (*Tensor)(nil)
	if c.version < 11 {
		if c.has("min") {
			low = zeros(y.Type, nil)
			low.set(0, c.float("min", 0))
		}
		if c.has("max") {
			high = zeros(y.Type, nil)
			high.set(0, c.float("max", 0))
		}
	} else {
		if c.has("min") || c.has("max") {
			fail("bounds are inputs since opset 11")
		}
		low, high = c.x(1), c.x(2)
	}
	for i := range size(y.Shape) {
		if low != nil && len(low.F)+len(low.I) > 0 && y.order(i, low, 0) == -1 {
			y.copy(i, low, 0)
		}
		if high != nil && len(high.F)+len(high.I) > 0 && y.order(i, high, 0) == 1 {
			y.copy(i, high, 0)
		}
	}
	c.bounded(0).exact = c.version >= 11 // the attributes are float32
	return one(y)
}

// dropout draws a mask in training; before opset 12 it is the identity.
func dropout(c *evaluation) []*Tensor {
	x := c.x(0)
	ratio, training := c.float("ratio", 0.5), false
	if c.version >= 12 {
		if c.has("ratio") {
			fail("ratio is an input since opset 12")
		}
		if ratio = 0.5; c.x(1) != nil {
			ratio = c.x(1).F[0]
		}
		training = c.x(2) != nil && c.x(2).I[0] != 0
	}
	mask := zeros(graph.Bool, x.Shape)
	y := x.clone()
	c.bounded(0).exact = !training
	next := func() float64 { return 1 }
	if training {
		next = c.draws()
	}
	for i := range mask.I {
		keep := !training || next() >= ratio
		switch {
		case keep && training:
			mask.I[i], y.F[i] = 1, x.F[i]/(1-ratio)
		case keep:
			mask.I[i] = 1
		default:
			y.F[i] = 0
		}
	}
	if c.version < 10 { // the mask has the type of the data
		m := zeros(x.Type, x.Shape)
		for i, v := range mask.I {
			m.F[i] = float64(v)
		}
		mask = m
	}
	return []*Tensor{y, mask}
}

func branch(cond bool, a, b float64) float64 {
	if cond {
		return a
	}
	return b
}
