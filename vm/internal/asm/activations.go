package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

// tanhSmall holds the coefficients, in x², of (tanh(x) - x) / x³ for |x| < 0.625 (Cephes).
var tanhSmall = []float32{-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2, 2.06390887954e-2, -5.70498872745e-3}

// hardSigmoid computes scale·x + shift, clamped to [0, 1]; NaN stays.
func hardSigmoid() {
	VFMADD213PS(Y15, Y14, Y0)
	VXORPS(Y1, Y1, Y1)
	VMAXPS(Y0, Y1, Y0)
	constant(1, Y1)
	VMINPS(Y0, Y1, Y0)
}

// hardSwish computes x times hardSigmoid.
func hardSwish() {
	VMOVAPS(Y0, Y10)
	hardSigmoid()
	VMULPS(Y10, Y0, Y0)
}
