package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Operators with broadcasting, comparisons among them.
var arithmeticOperators = []operator{
	{"Add", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, false)},
	{"Sub", fold(func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b }, false)},
	{"Mul", fold(func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b }, false)},
	{"Div", fold(func(a, b float64) float64 { return a / b }, divide, false)},
	{"Max", fold(math.Max, func(a, b int64) int64 { return max(a, b) }, false)},
	{"Min", fold(math.Min, func(a, b int64) int64 { return min(a, b) }, false)},
	{"Sum", fold(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, false)},
	{"Mean", fold(func(a, b float64) float64 { return a + b }, nil, true)},
	{"Mod", func(c *call) []*Tensor {
		if c.int("fmod", 0) != 0 {
			return fold(math.Mod, func(a, b int64) int64 { return a % b }, false)(c)
		}
		return fold(floorMod, func(a, b int64) int64 { return ((a % b) + b) % b }, false)(c)
	}},
	{"Pow", func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape)
		a, b := c.x(0).spread(shape), c.x(1).spread(shape)
		y := zeros(a.Type, shape)
		for i := range size(shape) {
			y.set(i, math.Pow(a.real(i), b.real(i)))
		}
		return one(y)
	}},
	{"Where", func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape, c.x(2).Shape)
		cond, a, b := c.x(0).spread(shape), c.x(1).spread(shape), c.x(2).spread(shape)
		for i, v := range cond.I {
			if v == 0 {
				a.copy(i, b, i)
			}
		}
		return one(a)
	}},
	{"Equal", compare(func(a, b float64) bool { return a == b }, func(a, b int64) bool { return a == b })},
	{"Less", compare(func(a, b float64) bool { return a < b }, func(a, b int64) bool { return a < b })},
	{"LessOrEqual", compare(func(a, b float64) bool { return a <= b }, func(a, b int64) bool { return a <= b })},
	{"Greater", compare(func(a, b float64) bool { return a > b }, func(a, b int64) bool { return a > b })},
	{"GreaterOrEqual", compare(func(a, b float64) bool { return a >= b }, func(a, b int64) bool { return a >= b })},
	{"And", compare(nil, func(a, b int64) bool { return a != 0 && b != 0 })},
	{"Or", compare(nil, func(a, b int64) bool { return a != 0 || b != 0 })},
	{"Xor", compare(nil, func(a, b int64) bool { return a != b })},
}

// floorMod has the sign of b.
func floorMod(a, b float64) float64 {
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// divide cuts towards zero.
func divide(a, b int64) int64 {
	if b == 0 {
		fail("division of integers by zero")
	}
	return a / b
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

// fold combines all inputs, the first two first; mean divides by their number.
func fold(f func(a, b float64) float64, g func(a, b int64) int64, mean bool) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		var shapes [][]int
		for _, x := range c.in {
			shapes = append(shapes, x.Shape)
		}
		shape := broadcast(shapes...)
		y := c.x(0).spread(shape)
		for _, x := range c.in[1:] {
			b := x.spread(shape)
			for i := range y.F {
				y.F[i] = f(y.F[i], b.F[i])
			}
			for i := range y.I {
				y.I[i] = wrap(y.Type, g(y.I[i], b.I[i]))
			}
		}
		if mean {
			y = y.each(func(v float64) float64 { return v / float64(len(c.in)) })
		}
		return one(y)
	}
}

// compare makes a bool of each pair.
func compare(f func(a, b float64) bool, g func(a, b int64) bool) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		shape := broadcast(c.x(0).Shape, c.x(1).Shape)
		a, b := c.x(0).spread(shape), c.x(1).spread(shape)
		y := zeros(graph.Bool, shape)
		for i := range y.I {
			if isFloat(a.Type) && f(a.F[i], b.F[i]) || !isFloat(a.Type) && g(a.I[i], b.I[i]) {
				y.I[i] = 1
			}
		}
		return one(y)
	}
}
