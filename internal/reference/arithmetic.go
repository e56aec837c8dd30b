package reference

import (
	"cmp"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Operators with broadcasting, comparisons among them.
var arithmeticOperators = []operator{
	{"Add", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, nil, false)},
	{"Sub", fold(func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b }, nil, false)},
	{"Mul", fold(func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b }, nil, false)},
	{"Div", quotients(fold(func(a, b float64) float64 { return a / b }, divide[int64], divide[uint64], false))},
	{"Max", chosen(fold(func(a, b float64) float64 { return max(a, b) }, func(a, b int64) int64 { return max(a, b) }, func(a, b uint64) uint64 { return max(a, b) }, false))},
	{"Min", chosen(fold(func(a, b float64) float64 { return min(a, b) }, func(a, b int64) int64 { return min(a, b) }, func(a, b uint64) uint64 { return min(a, b) }, false))},
	{"Sum", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, nil, false)},
	{"Mean", fold(func(a, b float64) float64 { return a + b }, nil, nil, true)},
	{"Mod", quotients(func(c *call) []*Tensor {
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
	{"BitwiseAnd", fold(nil, func(a, b int64) int64 { return a & b }, nil, false)},
	{"BitwiseOr", fold(nil, func(a, b int64) int64 { return a | b }, nil, false)},
	{"BitwiseXor", fold(nil, func(a, b int64) int64 { return a ^ b }, nil, false)},
	{"BitwiseNot", func(c *call) []*Tensor {
		y := c.x(0).clone()
		for i, v := range y.I {
			y.I[i] = wrap(y.Type, ^v)
		}
		return one(y)
	}},
	{"BitShift", func(c *call) []*Tensor {
		left := c.str("direction", "") == "LEFT"
		bits := uint64(c.x(0).Type.Bits())
		return fold(nil, func(a, b int64) int64 {
			n := uint64(b)
			switch {
			case n >= bits && (left || a >= 0):
				return 0
			case left:
				return a << n
			}
			return a >> n
		}, func(a, b uint64) uint64 {
			if left {
				return a << b
			}
			return a >> b
		}, false)(c)
	}},
	{"Where", func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape, c.x(2).Shape)
		cond, a, b := c.x(0).spread(shape), c.x(1).spread(shape), c.x(2).spread(shape)
		for i, v := range cond.I {
			if v == 0 {
				a.copy(i, b, i)
			}
		}
		c.bounded(0).exact = true
		return one(a)
	}},
	{"Equal", compare(func(order int) bool { return order == 0 })},
	{"Less", compare(func(order int) bool { return order == -1 })},
	{"LessOrEqual", compare(func(order int) bool { return order == -1 || order == 0 })},
	{"Greater", compare(func(order int) bool { return order == 1 })},
	{"GreaterOrEqual", compare(func(order int) bool { return order == 1 || order == 0 })},
	{"And", logical(func(a, b bool) bool { return a && b })},
	{"Or", logical(func(a, b bool) bool { return a || b })},
	{"Xor", logical(func(a, b bool) bool { return a != b })},
}

// floorMod has the sign of b.
func floorMod(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// divide cuts towards zero. What a division by zero gives, nobody says.
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

// quotients leaves elements open where integers are divided by zero.
func quotients(eval func(*call) []*Tensor) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
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

// chosen says that elements are taken as they are.
func chosen(eval func(*call) []*Tensor) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		c.bounded(0).exact = true
		return eval(c)
	}
}

// power: the exponent may have another type than the base, which the result has.
func power(c *call) []*Tensor {
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

// broadcast is the shape that shapes broadcast to.
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

// fold combines all inputs, the first two first; mean divides by their number. u
// is for uint64; nil: as g.
func fold(f func(a, b float64) float64, g func(a, b int64) int64, u func(a, b uint64) uint64, mean bool) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
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

// compare makes a bool of each pair, by its order: -1, 0 or 1, or 2 if one is no
// number.
func compare(holds func(order int) bool) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape)
		a, b := c.x(0).spread(shape), c.x(1).spread(shape)
		y := zeros(graph.Bool, shape)
		for i := range y.I {
			if holds(a.order(i, b, i)) {
				y.I[i] = 1
			}
		}
		return one(y)
	}
}

// order is that of element i and element j of y.
func (x *Tensor) order(i int, y *Tensor, j int) int {
	switch {
	case !isFloat(x.Type) && x.Type == graph.Uint64:
		return cmp.Compare(uint64(x.I[i]), uint64(y.I[j]))
	case !isFloat(x.Type):
		return cmp.Compare(x.I[i], y.I[j])
	case math.IsNaN(x.F[i]) || math.IsNaN(y.F[j]):
		return 2
	}
	return cmp.Compare(x.F[i], y.F[j])
}

// logical makes a bool of two.
func logical(f func(a, b bool) bool) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape)
		a, b := c.x(0).spread(shape), c.x(1).spread(shape)
		y := zeros(graph.Bool, shape)
		for i := range y.I {
			if f(a.I[i] != 0, b.I[i] != 0) {
				y.I[i] = 1
			}
		}
		return one(y)
	}
}
