// Package simd computes functions of float32 numbers, eight at a time if the machine has
// AVX2, else one at a time in float64. The results of the two differ in the last places;
// on one machine they are always the same bits.
package simd

import "math"

// Exp writes exp(scale·x + shift) for each x of src; dst may be src. The relative error of
// the vectors is below one unit in the last place, apart from the rounding of the
// argument.
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
	each(dst, src, low, high, vectorClamp, func(x float32) float32 { return min(max(x, low), high) + 0 })
}

// Sigmoid writes 1/(1 + exp(-x)) for each x of src; dst may be src.
func Sigmoid(dst, src []float32) { apply(dst, src, 1, 0, vectorSigmoid, sigmoid) }

// Swish writes x/(1 + exp(-scale·x)) for each x of src; dst may be src.
func Swish(dst, src []float32, scale float32) {
	each(dst, src, scale, 0, vectorSwish, func(x float32) float32 {
		return float32(float64(x) * sigmoid(float64(scale)*float64(x)))
	})
}

// Tanh writes tanh(x) for each x of src; dst may be src. The relative error of the
// vectors is below three units in the last place.
func Tanh(dst, src []float32) { apply(dst, src, 1, 0, vectorTanh, math.Tanh) }

// Log writes the natural logarithm of each x of src; dst may be src. The error of the vectors
// is below two units in the last place.
func Log(dst, src []float32) { apply(dst, src, 1, 0, vectorLog, math.Log) }

// Asin writes asin(x) for each x of src; dst may be src. The error of the vectors is below two
// units in the last place.
func Asin(dst, src []float32) { apply(dst, src, 1, 0, vectorAsin, math.Asin) }

// Acos is Asin for acos(x).
func Acos(dst, src []float32) { apply(dst, src, 1, 0, vectorAcos, math.Acos) }

// Atan is Asin for atan(x).
func Atan(dst, src []float32) { apply(dst, src, 1, 0, vectorAtan, math.Atan) }

// Gelu writes x·(1 + erf(x/√2))/2 for each x of src; dst may be src.
func Gelu(dst, src []float32) {
	each(dst, src, 0, 0, vectorGelu, func(x float32) float32 {
		return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
	})
}

// GeluTanh writes x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 for each x of src; dst
// may be src.
func GeluTanh(dst, src []float32) {
	each(dst, src, 0, 0, vectorGeluTanh, func(x float32) float32 {
		v := float64(x)
		return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	})
}

// HardSigmoid writes min(max(scale·x + shift, 0), 1) for each x of src; dst may be
// src. NaN stays.
func HardSigmoid(dst, src []float32, scale, shift float32) {
	each(dst, src, scale, shift, vectorHardSigmoid, func(x float32) float32 { return min(max(scale*x+shift, 0), 1) })
}

// HardSwish writes x·min(max(scale·x + shift, 0), 1) for each x of src; dst may be src.
func HardSwish(dst, src []float32, scale, shift float32) {
	each(dst, src, scale, shift, vectorHardSwish, func(x float32) float32 { return x * min(max(scale*x+shift, 0), 1) })
}

// AddTwo writes (x + a) + b for each x of src; dst may be src.
func AddTwo(dst, src []float32, a, b float32) {
	each(dst, src, a, b, vectorAddTwo, func(x float32) float32 { return (x + a) + b })
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// vector names a function in assembly.
type vector int8

const (
	vectorExp vector = iota
	vectorErf
	vectorClamp
	vectorSigmoid
	vectorSwish
	vectorTanh
	vectorLog
	vectorSin
	vectorCos
	vectorTan
	vectorAsin
	vectorAcos
	vectorAtan
	vectorGelu
	vectorGeluTanh
	vectorHardSigmoid
	vectorHardSwish
	vectorAffine
	vectorAddTwo
)

// apply writes f(scale·x + shift).
func apply(dst, src []float32, scale, shift float32, v vector, f func(float64) float64) {
	each(dst, src, scale, shift, v, func(x float32) float32 { return float32(f(float64(scale*x + shift))) })
}

// each applies a vector function with arguments a and b to src, or the plain function
// otherwise on a machine without vectors.
func each(dst, src []float32, a, b float32, v vector, otherwise func(float32) float32) {
	dst = dst[:len(src)]
	if !available {
		for i, x := range src {
			dst[i] = otherwise(x)
		}
		return
	}
	whole := len(src) &^ 7
	if whole > 0 {
		v.run(&dst[0], &src[0], whole, a, b)
	}
	if whole < len(src) {
		var last [8]float32
		copy(last[:], src[whole:])
		v.run(&last[0], &last[0], 8, a, b)
		copy(dst[whole:], last[:])
	}
}
