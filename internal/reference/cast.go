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

// cast converts to the type that an attribute names. ONNX leaves the result for a number
// outside the range of an integer type open; here it is what x86's instructions give.
func (c *evaluation) cast(to graph.DType) *Tensor {
	x, saturate := c.x(0), c.int("saturate", 1) != 0
	y := x.cast(to)
	m := minifloats[to]
	for i := range size(x.Shape) {
		if m != nil {
			y.F[i] = m.nearest(x.real(i), saturate || to == graph.Float4E2M1)
		}
	}
	*c.bounded(0) = bound{mass: make([]float64, size(x.Shape)), exact: m != nil} // rounded once
	return y
}

// whole cuts a real towards 0 for an integer type. It is first converted to 32 bits for
// types of at most 32, to 64 for others and uint32. If it does not fit, or is NaN, that is
// the least such integer; uint64 has one more bit for positive numbers.
func whole(to graph.DType, v float64) int64 {
	switch v = math.Trunc(v); {
	case to == graph.Uint64 && v >= 1<<64:
		return 0
	case to == graph.Uint64 && v >= 1<<63:
		return int64(uint64(v))
	case to == graph.Int64 || to == graph.Uint64 || to == graph.Uint32:
		if !fits(graph.Int64, v) {
			v = math.MinInt64
		}
	case !fits(graph.Int32, v):
		v = math.MinInt32
	}
	return int64(v)
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
			y.I[i] = wrap(to, whole(to, v))
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
