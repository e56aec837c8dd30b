package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

var castOperators = []operator{
	{"Cast", func(c *call) []*Tensor { return one(c.x(0).cast(graph.DType(c.int("to", 0)))) }},
	{"CastLike", func(c *call) []*Tensor { return one(c.x(0).cast(c.x(1).Type)) }},
}

// cast gives x another element type. Only 16-bit types round (see the package);
// what is too large for float32 is infinite.
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
			y.I[i] = wrap(to, int64(v))
		default:
			y.I[i] = wrap(to, x.I[i])
		}
	}
	return y
}
