package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tanhSmall holds the coefficients, in x², of (tanh(x) - x) / x³ for |x| < 0.625 (Cephes).
var tanhSmall = []float32{-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2, 2.06390887954e-2, -5.70498872745e-3}

// hyperbolicTangent is tanh, by a polynomial for small x and by exp for others.
// Its relative error is below three units in the last place. It uses Y1 to Y9.
func hyperbolicTangent() {
	bits(1<<31, Y6)
	VANDPS(Y0, Y6, Y7)  // sign
	VANDNPS(Y0, Y6, Y8) // |x|
	VMULPS(Y8, Y8, Y1)
	polynomial(tanhSmall, Y1, Y9, Y2)
	VMULPS(Y1, Y9, Y9)
	VFMADD213PS(Y8, Y8, Y9)
	VADDPS(Y8, Y8, Y0)
	exponential()
	constant(1, Y1)
	VADDPS(Y1, Y0, Y0)
	constant(2, Y2)
	VDIVPS(Y0, Y2, Y0)
	VSUBPS(Y0, Y1, Y0)
	constant(0.625, Y2)
	VCMPPS(Imm(1), Y2, Y8, Y1) // |x| < 0.625
	VBLENDVPS(Y1, Y9, Y0, Y0)
	VORPS(Y7, Y0, Y0)
}

// half writes x·(1 + Y0)/2, where x is in Y10.
func half() {
	constant(1, Y1)
	VADDPS(Y1, Y0, Y0)
	VMULPS(Y10, Y0, Y0)
	constant(0.5, Y1)
	VMULPS(Y1, Y0, Y0)
}

// gelu computes x·(1 + erf(x/√2))/2.
func gelu() {
	VMOVAPS(Y0, Y10)
	constant(math.Sqrt2/2, Y1)
	VMULPS(Y1, Y0, Y0)
	errorFunction()
	half()
}

// geluTanh is gelu with tanh(√(2/π)·(x + 0.044715·x³)) instead of erf(x/√2).
func geluTanh() {
	VMOVAPS(Y0, Y10)
	VMULPS(Y0, Y0, Y1)
	constant(0.044715*math.Sqrt2*(2/math.SqrtPi)/2, Y2)
	constant(math.Sqrt2*(2/math.SqrtPi)/2, Y3)
	VFMADD213PS(Y3, Y2, Y1)
	VMULPS(Y1, Y0, Y0)
	hyperbolicTangent()
	half()
}

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
