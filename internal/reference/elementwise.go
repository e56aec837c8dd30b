package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

var elementwiseOperators = []operator{
	{"Abs", chosen(signed(math.Abs, func(v int64) int64 { return max(v, -v) }, sameUnsigned))},
	{"Neg", chosen(signed(func(v float64) float64 { return -v }, func(v int64) int64 { return -v }, sameUnsigned))},
	{"Sign", chosen(signed(sign, func(v int64) int64 { return int64(sign(float64(v))) }, func(v uint64) uint64 { return min(v, 1) }))},
	{"Floor", chosen(real1(math.Floor))},
	{"Ceil", chosen(real1(math.Ceil))},
	{"Round", chosen(real1(math.RoundToEven))},
	{"Sqrt", real1(math.Sqrt)},
	{"Exp", real1(math.Exp)},
	{"Log", real1(math.Log)},
	{"Erf", real1(math.Erf)},
	{"Sin", real1(math.Sin)},
	{"Cos", real1(math.Cos)},
	{"Tan", real1(math.Tan)},
	{"Asin", real1(math.Asin)},
	{"Acos", real1(math.Acos)},
	{"Atan", real1(math.Atan)},
	{"Sinh", real1(math.Sinh)},
	{"Cosh", real1(math.Cosh)},
	{"Asinh", real1(math.Asinh)},
	{"Acosh", real1(math.Acosh)},
	{"Atanh", real1(math.Atanh)},
	{"Reciprocal", real1(func(v float64) float64 { return 1 / v })},
	{"Add", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, nil, false)},
	{"Sub", fold(func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b }, nil, false)},
	{"Mul", fold(func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b }, nil, false)},
	{"Div", quotients(fold(func(a, b float64) float64 { return a / b }, divide[int64], divide[uint64], false))},
	{"Mod", quotients(func(c *evaluation) []*Tensor {
		if c.int("fmod", 0) != 0 {
			return fold(math.Mod, remainder[int64], remainder[uint64], false)(c)
		}
		return fold(floorMod, func(a, b int64) int64 {
			m := remainder(a, b)
			if m != 0 && (m < 0) != (b < 0) {
				m += b
			}
			return m
		}, remainder[uint64], false)(c)
	})},
	{"Pow", power},
	{"Sum", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, nil, false)},
	{"Mean", fold(func(a, b float64) float64 { return a + b }, nil, nil, true)},
	{"Min", chosen(fold(func(a, b float64) float64 { return min(a, b) }, func(a, b int64) int64 { return min(a, b) }, func(a, b uint64) uint64 { return min(a, b) }, false))},
	{"Max", chosen(fold(func(a, b float64) float64 { return max(a, b) }, func(a, b int64) int64 { return max(a, b) }, func(a, b uint64) uint64 { return max(a, b) }, false))},
}

// each applies f to all elements.
func (x *Tensor) each(f func(float64) float64) *Tensor {
	y := zeros(x.Type, x.Shape)
	for i := range size(x.Shape) {
		y.set(i, f(x.real(i)))
	}
	return y
}

// massOf sets the mass of output k as a function of the elements of x.
func (c *evaluation) massOf(k int, x *Tensor, f func(float64) float64) {
	mass := make([]float64, size(x.Shape))
	for i := range mass {
		mass[i] = f(x.real(i))
	}
	c.terms(k, mass)
}

// real1 is an operator on floating-point elements.
func real1(f func(float64) float64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor { return one(c.x(0).each(f)) }
}

// real1With is a real1 whose function depends on attributes.
func real1With(f func(*evaluation) func(float64) float64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor { return one(c.x(0).each(f(c))) }
}

// signed is an operator on elements of any type; u is for uint64, of which nothing is below 0.
func signed(f func(float64) float64, g func(int64) int64, u func(uint64) uint64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		y := c.x(0).clone()
		for i, v := range y.F {
			y.F[i] = f(v)
		}
		for i, v := range y.I {
			y.I[i] = g(v)
		}
		if x := c.x(0); x.Type == graph.Uint64 {
			for i, v := range x.I {
				y.I[i] = int64(u(uint64(v)))
			}
		}
		return one(y)
	}
}

func sameUnsigned(v uint64) uint64 { return v }

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return v // zero or NaN
}

// fold combines all inputs from left to right; mean divides by their number. u is for
// uint64; nil: g.
func fold(f func(a, b float64) float64, g func(a, b int64) int64, u func(a, b uint64) uint64, mean bool) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		var shapes [][]int
		for _, x := range c.in {
			shapes = append(shapes, x.Shape)
		}
		shape := broadcast(shapes...)
		y := c.x(0).spread(shape)
		mass := magnitudes(y.F)
		for _, x := range c.in[1:] {
			b := x.spread(shape)
			for i := range y.F {
				y.F[i] = f(y.F[i], b.F[i])
				mass[i] += math.Abs(b.F[i])
			}
			for i := range y.I {
				if y.Type == graph.Uint64 && u != nil {
					y.I[i] = int64(u(uint64(y.I[i]), uint64(b.I[i])))
				} else {
					y.I[i] = wrap(y.Type, g(y.I[i], b.I[i]))
				}
			}
		}
		if mean {
			n := float64(len(c.in))
			for i := range y.F {
				y.F[i] /= n
				mass[i] /= n
			}
		}
		if len(c.in) > 2 { // of two, the result is rounded once
			c.terms(0, mass)
		}
		return one(y)
	}
}

// magnitudes are the absolute values.
func magnitudes(v []float64) []float64 {
	m := make([]float64, len(v))
	for i, x := range v {
		m[i] = math.Abs(x)
	}
	return m
}

// broadcast returns the shape to which the shapes broadcast.
func broadcast(shapes ...[]int) []int {
	var out []int
	for _, s := range shapes {
		for len(out) < len(s) {
			out = append([]int{1}, out...)
		}
		for k, n := range s {
			at := &out[len(out)-len(s)+k]
			if *at == 1 {
				*at = n
			} else if n != 1 && n != *at {
				fail("shapes %v do not broadcast", shapes)
			}
		}
	}
	return out
}

// chosen declares that output elements are exact copies.
func chosen(eval func(*evaluation) []*Tensor) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		c.bounded(0).exact = true
		return eval(c)
	}
}

// quotients marks elements as undefined where an integer is divided by zero.
func quotients(eval func(*evaluation) []*Tensor) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		y := eval(c)
		if y[0].I == nil {
			return y
		}
		open := make([]bool, len(y[0].I))
		for i, v := range c.x(1).spread(y[0].Shape).I {
			open[i] = v == 0
		}
		c.bounded(0).open = open
		return y
	}
}

// floorMod returns the remainder with the sign of b.
func floorMod(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// divide truncates towards zero. The result of a division by zero is undefined.
func divide[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	return a / b
}

func remainder[T int64 | uint64](a, b T) T {
	if b == 0 {
		return 0
	}
	return a % b
}

// power raises to a power. The result has the type of the base; the exponent may have
// another one.
func power(c *evaluation) []*Tensor {
	shape := broadcast(c.x(0).Shape, c.x(1).Shape)
	a, b := c.x(0).spread(shape), c.x(1).spread(shape)
	y := zeros(a.Type, shape)
	open := make([]bool, size(shape))
	for i := range open {
		v := math.Pow(a.real(i), b.real(i))
		switch {
		case isFloat(a.Type):
			y.F[i] = v
		case !isFloat(b.Type) && b.real(i) >= 0:
			p, base := int64(1), a.I[i]
			for e := uint64(b.I[i]); e > 0; e >>= 1 {
				if e&1 == 1 {
					p *= base
				}
				base *= base
			}
			y.I[i] = p
		default:
			y.set(i, v)
			open[i] = math.IsNaN(v) || math.Abs(v) > 1<<53 || !fits(a.Type, math.Trunc(v))
		}
	}
	c.bounded(0).open = open
	return one(y)
}
