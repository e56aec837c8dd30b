package simd

import "math"

// Power writes a to the power of b for each pair of numbers; dst may be a or b. A list b of one
// number stands for as many as dst has. Vectors compute in float64, with an error of hardly more
// than half a unit in the last place, where a is positive and normal and b is finite and neither
// 2 nor 3; otherwise computes all others.
func Power(dst, a, b []float32, otherwise func(a, b float32) float32) {
	a = a[:len(dst)]
	step := min(len(b)-1, 1)
	var powers [blockLen]float32
	var repeated [8]float32
	if step == 0 && len(dst) > 0 {
		for i := range repeated {
			repeated[i] = b[0]
		}
	}
	for from := 0; from < len(dst); from += blockLen {
		x, d := a[from:min(from+blockLen, len(dst))], dst[from:]
		y := b
		if step == 1 {
			y = b[from : from+len(x)]
		}
		unusual := true
		if available {
			unusual = powers8(&powers, x, y, &repeated)
		}
		if unusual {
			for i, v := range x {
				if e := y[i*step]; !available || !ordinaryPower(v, e) {
					powers[i] = otherwise(v, e)
				}
			}
		}
		copy(d, powers[:len(x)])
	}
}

// powers8 computes up to a block of powers with vectors, and reports whether some are not ordinary.
// If y is a single number, repeated has it eight times.
func powers8(powers *[blockLen]float32, x, y []float32, repeated *[8]float32) bool {
	unusual, whole := 0, len(x)&^7
	exponents, stride := &repeated[0], 0
	if len(y) == len(x) {
		exponents, stride = &y[0], 32
	}
	if whole > 0 {
		unusual = powerAVX2(&powers[0], &x[0], exponents, whole, stride)
	}
	if whole < len(x) {
		last, lastExponents := [8]float32{1, 1, 1, 1, 1, 1, 1, 1}, *repeated
		copy(last[:], x[whole:])
		if stride > 0 {
			copy(lastExponents[:], y[whole:])
		}
		unusual |= powerAVX2(&powers[whole], &last[0], &lastExponents[0], 8, 0)
	}
	return unusual != 0
}

// ordinaryPower reports whether the vectors compute a power.
func ordinaryPower(a, b float32) bool {
	return a >= 0x1p-126 && a <= math.MaxFloat32 && b-b == 0 && b != 2 && b != 3
}
