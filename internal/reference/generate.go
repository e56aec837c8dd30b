package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// generateOperators make a tensor from attributes, lengths or the shape of another
// tensor.
var generateOperators = []operator{
	{"Constant", constant},
	{"ConstantOfShape", func(c *evaluation) []*Tensor {
		value := zeros(graph.Float32, []int{1})
		if a := c.attr("value"); a != nil {
			value = fromAttr(a)
		}
		return one(value.pick(c.list(0), make([]int, size(c.list(0)))))
	}},
	{"Shape", func(c *evaluation) []*Tensor {
		shape := c.x(0).Shape
		bound := func(v int) int {
			if v < 0 {
				v += len(shape)
			}
			return min(max(v, 0), len(shape))
		}
		start, end := bound(c.int("start", 0)), bound(c.int("end", len(shape)))
		if start >= end {
			return one(Ints([]int{0}))
		}
		return one(Ints([]int{end - start}, toInt64s(shape[start:end])...))
	}},
	{"Size", func(c *evaluation) []*Tensor { return one(Ints(nil, int64(size(c.x(0).Shape)))) }},
	{"Range", func(c *evaluation) []*Tensor {
		start, limit, delta := c.x(0), c.x(1), c.x(2)
		n := max(int(math.Ceil((limit.real(0)-start.real(0))/delta.real(0))), 0)
		y, mass := zeros(start.Type, []int{n}), make([]float64, n)
		for i := range n {
			y.set(i, start.real(0)+float64(i)*delta.real(0))
			mass[i] = math.Abs(start.real(0)) + math.Abs(float64(i)*delta.real(0))
		}
		c.terms(0, mass)
		return one(y)
	}},
	{"EyeLike", func(c *evaluation) []*Tensor {
		x := c.x(0)
		y := zeros(graph.DType(c.int("dtype", int(x.Type))), x.Shape)
		for r := range x.Shape[0] {
			if k := r + c.int("k", 0); k >= 0 && k < x.Shape[1] {
				y.set(r*x.Shape[1]+k, 1)
			}
		}
		return one(y)
	}},
}

func fromAttr(a *graph.Attr) *Tensor {
	x, err := FromData(a.Tensor)
	if err != nil {
		panic(fault{err})
	}
	return x
}

// constant holds its value in one of several attributes.
func constant(c *evaluation) []*Tensor {
	var a *graph.Attr
	for _, name := range []string{"value", "value_float", "value_floats", "value_int", "value_ints"} {
		if b := c.attr(name); b != nil {
			a = b
		}
	}
	if a == nil {
		fail("a constant that is no tensor of numbers")
	}
	switch a.Type {
	case graph.AttrTensor:
		return one(fromAttr(a))
	case graph.AttrFloat:
		return one(&Tensor{Type: graph.Float32, F: []float64{float64(a.Float)}})
	case graph.AttrFloats:
		y := zeros(graph.Float32, []int{len(a.Floats)})
		for i, v := range a.Floats {
			y.F[i] = float64(v)
		}
		return one(y)
	case graph.AttrInt:
		return one(Ints(nil, a.Int))
	}
	return one(Ints([]int{len(a.Ints)}, a.Ints...))
}
