// Package simd computes functions of float32 numbers eight at once, with AVX2
// where the machine has it; elsewhere one by one, in float64. The results of the
// two differ in the last places; on one machine they are always the same bits.
package simd

import "math"

// Exp writes exp(scale·x + shift) for each x of src; dst may be src. The relative
// error of the vectors is below one unit in the last place, that of the
// argument's rounding aside.
func Exp(dst, src []float32, scale, shift float32) {
	apply(dst, src, scale, shift, vectorExp, math.Exp)
}

// Erf writes erf(scale·x + shift) for each x of src; dst may be src. The relative
// error of the vectors is below two units in the last place.
func Erf(dst, src []float32, scale, shift float32) {
	apply(dst, src, scale, shift, vectorErf, math.Erf)
}

// Clamp writes min(max(x, low), high) for each x of src; dst may be src. NaN
// stays, and -0 becomes 0.
func Clamp(dst, src []float32, low, high float32) {
	apply(dst, src, low, high, vectorClamp, nil)
}

// vector is a function in assembly.
type vector int8

const (
	vectorExp vector = iota
	vectorErf
	vectorClamp
)

func apply(dst, src []float32, scale, shift float32, v vector, otherwise func(float64) float64) {
	dst = dst[:len(src)]
	if !available {
		for i, x := range src {
			if v == vectorClamp {
				dst[i] = min(max(x, scale), shift) + 0
				continue
			}
			dst[i] = float32(otherwise(float64(scale*x + shift)))
		}
		return
	}
	whole := len(src) &^ 7
	if whole > 0 {
		v.run(&dst[0], &src[0], whole, scale, shift)
	}
	if whole < len(src) {
		var last [8]float32
		copy(last[:], src[whole:])
		v.run(&last[0], &last[0], 8, scale, shift)
		copy(dst[whole:], last[:])
	}
}
