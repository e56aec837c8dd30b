package constant

import (
	"encoding/binary"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Real is element i of a tensor of a floating-point type of two, four or eight bytes; NaN for
// other types.
func (t *Tensor) Real(i int) float64 {
	switch t.Type {
	case graph.Float32:
		return float64(t.float32(i))
	case graph.Float64:
		return t.float64(i)
	case graph.Float16:
		if v, ok := half(binary.LittleEndian.Uint16(t.Raw[2*i:])); ok {
			return v
		}
	case graph.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Raw[2*i:])) << 16))
	}
	return math.NaN()
}

// AppendReal appends a number as an element of a floating-point type of two, four or eight bytes,
// rounded to nearest, to even; ok is false for other types.
func AppendReal(b []byte, elem graph.DType, x float64) (_ []byte, ok bool) {
	switch elem {
	case graph.Float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x))), true
	case graph.Float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)), true
	case graph.Float16:
		return binary.LittleEndian.AppendUint16(b, HalfBits(x)), true
	case graph.BFloat16:
		return binary.LittleEndian.AppendUint16(b, BFloatBits(x)), true
	}
	return b, false
}

// BFloatBits rounds to bfloat16, to even.
func BFloatBits(x float64) uint16 {
	b := math.Float32bits(float32(x))
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// HalfBits rounds to float16, to even.
func HalfBits(x float64) uint16 {
	b := math.Float64bits(x)
	sign := uint16(b >> 48 & 0x8000)
	abs := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return sign | 0x7e00
	case abs >= 65520:
		return sign | 0x7c00
	case abs < 0x1p-14: // subnormal: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(abs*0x1p24))
	}
	frac, exp := math.Frexp(abs) // frac in [0.5, 1)
	m := uint16(math.RoundToEven(frac*0x1p11)) - 1<<10
	return sign | (uint16(exp+14)<<10 + m)
}
