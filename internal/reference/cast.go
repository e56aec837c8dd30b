package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// castOperators change the element type, or copy their input.
var castOperators = []operator{
	{"Cast", func(c *evaluation) []*Tensor { return one(c.cast(graph.DType(c.int("to", 0)))) }},
	{"CastLike", func(c *evaluation) []*Tensor { return one(c.cast(c.x(1).Type)) }},
	{"BitCast", bitCast},
	{"Identity", chosen(func(c *evaluation) []*Tensor { return one(c.x(0).clone()) })},
}

// cast converts to the type that an attribute names. The result for a number outside
// the range of an integer type is undefined.
func (c *evaluation) cast(to graph.DType) *Tensor {
	x, saturate := c.x(0), c.int("saturate", 1) != 0
	y := x.cast(to)
	m := minifloats[to]
	open := make([]bool, size(x.Shape))
	for i := range open {
		v := x.real(i)
		switch {
		case m != nil:
			y.F[i] = m.nearest(v, saturate || to == graph.Float4E2M1)
		case isFloat(x.Type) && !isFloat(to) && to != graph.Bool:
			open[i] = !fits(to, math.Trunc(v))
		}
	}
	*c.bounded(0) = bound{mass: make([]float64, size(x.Shape)), exact: m != nil, open: open} // rounded once
	return y
}

// fits reports whether an integer is in the range of a type.
func fits(t graph.DType, v float64) bool {
	bits := int(t.Bits())
	switch t {
	case graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8, graph.Uint4, graph.Uint2:
		return v >= 0 && v < math.Ldexp(1, bits)
	}
	return v >= -math.Ldexp(1, bits-1) && v < math.Ldexp(1, bits-1)
}

// cast converts x to another element type. Only types of 16 bits and fewer round (see
// the package comment); a value too large for float32 becomes infinite.
func (x *Tensor) cast(to graph.DType) *Tensor {
	if !Holds(to) {
		fail("type %v: not held", to)
	}
	y := zeros(to, x.Shape)
	for i := range size(x.Shape) {
		v := x.real(i)
		switch {
		case isFloat(to):
			if to == graph.Float32 && math.Abs(v) > 0x1.fffffefffp127 {
				v = math.Inf(int(math.Copysign(1, v)))
			}
			y.F[i] = v
		case to == graph.Bool:
			if v != 0 {
				y.I[i] = 1
			}
		case isFloat(x.Type):
			y.set(i, v)
			y.I[i] = wrap(to, y.I[i])
		default:
			y.I[i] = wrap(to, x.I[i])
		}
	}
	return y
}

// bitCast reinterprets the bits of the elements as another type of the same width.
func bitCast(c *evaluation) []*Tensor {
	x, to := c.x(0), graph.DType(c.int("to", 0))
	if !Holds(to) || x.Type.Bits() != to.Bits() {
		fail("bits of %v as %v", x.Type, to)
	}
	y, err := Decode(to, x.Shape, x.Encode())
	if err != nil {
		panic(fault{err})
	}
	c.bounded(0).exact = true
	return one(y)
}
