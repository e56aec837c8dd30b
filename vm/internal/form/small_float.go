package form

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
)

// Writer is the function writer for a node whose attribute saturate says what becomes of
// numbers that are too large for a float8.
func (c *Call) Writer(d graph.DType) (func(at unsafe.Pointer, i int, v float64), bool) {
	if f, ok := smallFloats[d]; ok {
		return f.writer(c.Int("saturate", 1) != 0), true
	}
	return Writer(d)
}

// IsFloat8 reports whether a dtype is a floating-point format of at most 8 bits.
func IsFloat8(d graph.DType) bool {
	_, is := smallFloats[d]
	return is
}

// smallFloat is a floating-point format of at most 8 bits.
type smallFloat struct {
	bits, mantissa, bias int
	infinity             bool // has infinities and several NaNs, as in IEEE 754
	unsigned             bool // has no negative zero: its code is NaN (the "uz" of fnuz)
	finite               bool // has neither infinities nor NaN
}

// smallFloats lists the formats that are decoded one code at a time (OCP 2023; Noune
// et al. 2022 for fnuz).
var smallFloats = map[graph.DType]*smallFloat{
	graph.Float8E4M3FN: {bits: 8, mantissa: 3, bias: 7},
	graph.Float8E4M3U:  {bits: 8, mantissa: 3, bias: 8, unsigned: true},
	graph.Float8E5M2:   {bits: 8, mantissa: 2, bias: 15, infinity: true},
	graph.Float8E5M2U:  {bits: 8, mantissa: 2, bias: 16, unsigned: true},
	graph.Float4E2M1:   {bits: 4, mantissa: 1, bias: 1, finite: true},
}

// decode returns the value of a code.
func (f *smallFloat) decode(code uint8) float64 {
	exponents := f.bits - 1 - f.mantissa
	sign := 1.0
	if code>>(f.bits-1)&1 == 1 {
		sign = -1
	}
	exp, fraction := int(code>>f.mantissa)&(1<<exponents-1), int(code)&(1<<f.mantissa-1)
	switch {
	case f.unsigned && code == 1<<(f.bits-1):
		return math.NaN()
	case f.infinity && exp == 1<<exponents-1 && fraction == 0:
		return math.Inf(int(sign))
	case f.infinity && exp == 1<<exponents-1:
		return math.NaN()
	case !f.infinity && !f.unsigned && !f.finite && code&(1<<(f.bits-1)-1) == 1<<(f.bits-1)-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(float64(fraction), 1-f.bias-f.mantissa)
	}
	return sign * math.Ldexp(float64(fraction+1<<f.mantissa), exp-f.bias-f.mantissa)
}

// writer returns a function that writes element i of a tensor.
func (f *smallFloat) writer(saturate bool) func(at unsafe.Pointer, i int, v float64) {
	if f.bits < 8 {
		return func(at unsafe.Pointer, i int, v float64) { PutPacked(at, i, f.bits, f.encode(v, saturate)) }
	}
	return func(at unsafe.Pointer, i int, v float64) { *(*uint8)(unsafe.Add(at, i)) = f.encode(v, saturate) }
}

// encode returns the code of the value nearest to v, which is rounded to float32 first, as
// ONNX's reference and ONNX Runtime do. Ties go to the even code. A value that is too large
// becomes the largest one if it saturates, or if the format is finite, and else infinite, or
// NaN in a format without infinities.
func (f *smallFloat) encode(v float64, saturate bool) uint8 {
	v = float64(float32(v))
	negative := uint8(1) << (f.bits - 1)
	sign := uint8(0)
	if math.Signbit(v) {
		sign = negative
		v = -v
	}
	if v != v {
		if f.unsigned || f.finite {
			return negative
		}
		return sign | (negative - 1)
	}
	most := negative - 1
	for math.IsNaN(f.decode(most)) || math.IsInf(f.decode(most), 0) {
		most--
	}
	if end := f.decode(most); v >= end {
		// Half a step above the largest value, a tie rounds up if its code is odd.
		over := v - end - (end-f.decode(most-1))/2
		switch {
		case saturate || f.finite || over < 0 || over == 0 && most&1 == 0:
			return sign | most
		case f.unsigned:
			return negative
		}
		return sign | (most + 1)
	}
	low, high := uint8(0), most // f.decode(low) <= v, by bisection
	for high-low > 1 {
		if mid := low + (high-low)/2; f.decode(mid) <= v {
			low = mid
		} else {
			high = mid
		}
	}
	below, above := v-f.decode(low), f.decode(high)-v
	if above < below || above == below && high&1 == 0 {
		low = high
	}
	if low == 0 && f.unsigned {
		return 0
	}
	return sign | low
}
