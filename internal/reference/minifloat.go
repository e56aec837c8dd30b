package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// minifloat is a floating-point type of a byte or less: the value of each code.
type minifloat struct {
	values   []float64
	overflow float64 // result for numbers that are too large, if they do not saturate
	nan      float64 // result for NaN: NaN, or -0 in formats without NaN
}

// minifloats are the formats of OCP (2023) and of Noune et al. (2022, fnuz), as
// ONNX lists them.
var minifloats = map[graph.DType]*minifloat{
	graph.Float8E4M3FN: newMinifloat(4, 3, 7, func(code int) float64 { return nanAt(code&127 == 127) }),
	graph.Float8E4M3U:  newMinifloat(4, 3, 8, func(code int) float64 { return nanAt(code == 128) }),
	graph.Float8E5M2: newMinifloat(5, 2, 15, func(code int) float64 {
		if code&127 == 124 {
			return math.Inf(1 - code>>7*2)
		}
		return nanAt(code&127 > 124)
	}),
	graph.Float8E5M2U: newMinifloat(5, 2, 16, func(code int) float64 { return nanAt(code == 128) }),
	graph.Float4E2M1:  newMinifloat(2, 1, 1, func(int) float64 { return 0 }),
}

func nanAt(is bool) float64 {
	if is {
		return math.NaN()
	}
	return 0
}

// newMinifloat decodes all codes; special returns the value of a code that does not mean
// a finite number, and 0 for others.
func newMinifloat(exponent, fraction, bias int, special func(code int) float64) *minifloat {
	m := &minifloat{overflow: math.NaN(), nan: math.Copysign(0, -1)}
	for code := range 2 << (exponent + fraction) {
		e, f := code>>fraction&(1<<exponent-1), float64(code&(1<<fraction-1))
		v := math.Ldexp(f, 1-bias-fraction)
		if e > 0 {
			v = math.Ldexp(f+float64(int(1)<<fraction), e-bias-fraction)
		}
		if code>>(exponent+fraction) == 1 {
			v = -v
		}
		if s := special(code); s != 0 {
			v = s
			if math.IsInf(s, 1) {
				m.overflow = s
			}
			if math.IsNaN(s) {
				m.nan = s
			}
		}
		m.values = append(m.values, v)
	}
	return m
}

// nearest returns the value nearest to v, as ONNX's reference does: v is a float32 first,
// and ties go to the even code. A number that is too large becomes the largest value if
// saturate is set, and overflow otherwise.
func (m *minifloat) nearest(v float64, saturate bool) float64 {
	v = float64(float32(v))
	if math.IsNaN(v) {
		return m.nan
	}
	a, best, most := math.Abs(v), 0, 0
	for code, x := range m.values[:len(m.values)/2] {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			continue
		}
		near, far := math.Abs(a-x), math.Abs(a-m.values[best])
		if near < far || near == far && code%2 == 0 {
			best = code
		}
		most = code
	}
	if !saturate {
		// The next value, if the format had one.
		end := m.values[most] + (m.values[most]-m.values[most-1])/2
		if a > end || a == end && most%2 == 1 {
			return math.Copysign(m.overflow, v)
		}
	}
	if math.IsInf(a, 1) {
		best = most
	}
	return math.Copysign(m.values[best], v)
}
