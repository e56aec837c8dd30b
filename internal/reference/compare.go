package reference

import (
	"cmp"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// compareOperators compare, combine truth values and bits, and choose between two
// inputs.
var compareOperators = []operator{
	{"Equal", compare(func(order int) bool { return order == 0 })},
	{"Less", compare(func(order int) bool { return order == -1 })},
	{"LessOrEqual", compare(func(order int) bool { return order == -1 || order == 0 })},
	{"Greater", compare(func(order int) bool { return order == 1 })},
	{"GreaterOrEqual", compare(func(order int) bool { return order == 1 || order == 0 })},
	{"And", logical(func(a, b bool) bool { return a && b })},
	{"Or", logical(func(a, b bool) bool { return a || b })},
	{"Xor", logical(func(a, b bool) bool { return a != b })},
	{"Not", func(c *evaluation) []*Tensor {
		y := c.x(0).clone()
		for i, v := range y.I {
			y.I[i] = 1 - v
		}
		return one(y)
	}},
	{"IsNaN", test1(math.IsNaN)},
	{"IsInf", func(c *evaluation) []*Tensor {
		above, below := c.int("detect_positive", 1) != 0, c.int("detect_negative", 1) != 0
		return test1(func(v float64) bool { return above && math.IsInf(v, 1) || below && math.IsInf(v, -1) })(c)
	}},
	{"BitwiseAnd", fold(nil, func(a, b int64) int64 { return a & b }, nil, false)},
	{"BitwiseOr", fold(nil, func(a, b int64) int64 { return a | b }, nil, false)},
	{"BitwiseXor", fold(nil, func(a, b int64) int64 { return a ^ b }, nil, false)},
	{"BitwiseNot", func(c *evaluation) []*Tensor {
		y := c.x(0).clone()
		for i, v := range y.I {
			y.I[i] = wrap(y.Type, ^v)
		}
		return one(y)
	}},
	{"BitShift", func(c *evaluation) []*Tensor {
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
	{"Where", func(c *evaluation) []*Tensor {
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
}

// test1 is an operator whose result is bool.
func test1(f func(float64) bool) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		y := zeros(graph.Bool, c.x(0).Shape)
		for i := range y.I {
			if f(c.x(0).real(i)) {
				y.I[i] = 1
			}
		}
		return one(y)
	}
}

// compare returns a bool for each pair by its order: -1, 0, 1, or 2 if one is NaN.
func compare(holds func(order int) bool) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
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

// order compares element i of x with element j of y.
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

// logical combines two bools.
func logical(f func(a, b bool) bool) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
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
