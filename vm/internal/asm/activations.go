package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

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

// addTwo adds one argument and then the other.
func addTwo() {
	VADDPS(Y14, Y0, Y0)
	VADDPS(Y15, Y0, Y0)
}
