package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Coefficients of Cephes (Moshier 1992): asinf, atanf.
var (
	arcsineCoefficients    = []float32{1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2}
	arctangentCoefficients = []float32{-3.33329491539e-1, 1.99777106478e-1, -1.38776856032e-1, 8.05374449538e-2}
)

// halfPiRest is what the nearest float32 of π/2 is too small by, relative to it: -2.8e-8. It
// is that of π and π/4, too.
var halfPiRest = func() float32 {
	near := float64(float32(math.Pi / 2))
	return float32((math.Pi/2 - near) / near)
}()

// arcTwice is half of asin or acos: the sum of c and b·c is asin(|x|) for |x| up to ½, else half
// of acos(|x|), which is asin(√((1 - |x|)/2)). d has the lanes of the second kind. Beyond 1, c is
// NaN. It keeps read.
func arcTwice(each []vectors) {
	c := sign()
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VANDNPS(v.x, c, v.a)
		VMULPS(v.a, v.a, v.b)
	})
	shared(0.5)
	all(each, func(v vectors) {
		VCMPPS(Imm(30), c, v.a, v.d)
		VMOVAPS(c, v.x)
		VFNMADD231PS(c, v.a, v.x)
		VSQRTPS(v.x, v.c)
		VBLENDVPS(v.d, v.x, v.b, v.x) // the square of
		VBLENDVPS(v.d, v.c, v.a, v.c) // the argument
	})
	polynomialTwice(each, arcsineCoefficients, inX, inB)
	all(each, func(v vectors) { VMULPS(v.x, v.b, v.b) })
}

// addFromCircle adds x, a multiple of π/4 rounded, what it lacks, c, and b·c. The largest two are
// added first, so that the rest is rounded once. The sum is in x.
func addFromCircle(each []vectors) {
	c := shared(halfPiRest)
	all(each, func(v vectors) {
		VMULPS(c, v.x, v.a)
		VFMADD213PS(v.a, v.c, v.b)
		VADDPS(v.c, v.x, v.x)
		VADDPS(v.b, v.x, v.x)
	})
}

// ofSign gives x the sign of what was read.
func ofSign(each []vectors) {
	c := sign()
	all(each, func(v vectors) {
		VANDPS(v.read, c, v.a)
		VORPS(v.a, v.x, v.x)
	})
}

// arcsineTwice is asin(x): beyond ½, π/2 less twice what arcTwice gives. Its error is below two
// units in the last place.
func arcsineTwice(each []vectors) {
	arcTwice(each)
	c := shared(-2)
	all(each, func(v vectors) {
		VMULPS(c, v.c, v.a)
		VBLENDVPS(v.d, v.a, v.c, v.c)
	})
	shared(math.Pi / 2)
	all(each, func(v vectors) { VANDPS(c, v.d, v.x) })
	addFromCircle(each)
	ofSign(each)
}

// arccosineTwice is acos(x): π/2 less what arcTwice gives, of x's sign, or, beyond ½, twice
// that for x above 0, and π less that below. Its error is below two units in the last place.
func arccosineTwice(each []vectors) {
	arcTwice(each)
	c := shared(math.Pi)
	all(each, func(v vectors) {
		VANDPS(v.c, v.d, v.a)
		VADDPS(v.a, v.c, v.c)
		VPSRAD(Imm(31), v.read, v.a)
		VANDPS(c, v.a, v.x) // π for x below 0
	})
	shared(math.Pi / 2)
	all(each, func(v vectors) {
		VBLENDVPS(v.d, v.x, c, v.x)
		VXORPS(v.read, v.d, v.a)
	})
	sign()
	all(each, func(v vectors) {
		VANDNPS(c, v.a, v.a) // what is subtracted
		VXORPS(v.a, v.c, v.c)
	})
	addFromCircle(each)
}

// arctangentTwice is atan(x), of an argument up to tan(π/8): beyond it, π/4 is added to the
// arctangent of (|x| - 1)/(|x| + 1), and beyond tan(3π/8), π/2 to that of -1/|x|. Its error is
// below two units in the last place.
func arctangentTwice(each []vectors) {
	c := sign()
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VANDNPS(v.x, c, v.a)
	})
	shared(math.Sqrt2 + 1)
	all(each, func(v vectors) { VCMPPS(Imm(30), c, v.a, v.d) })
	shared(math.Sqrt2 - 1)
	all(each, func(v vectors) { VCMPPS(Imm(30), c, v.a, v.c) })
	shared(1)
	all(each, func(v vectors) {
		VSUBPS(c, v.a, v.x)
		VADDPS(c, v.a, v.b)
		VBLENDVPS(v.c, v.x, v.a, v.x)
		VBLENDVPS(v.c, v.b, c, v.b)
		VBLENDVPS(v.d, v.a, v.b, v.b)
	})
	shared(-1)
	all(each, func(v vectors) {
		VBLENDVPS(v.d, c, v.x, v.x)
		VDIVPS(v.b, v.x, v.a)
	})
	shared(math.Pi / 4)
	all(each, func(v vectors) {
		VANDPS(c, v.c, v.c)
		VANDPS(c, v.d, v.d)
		VADDPS(v.d, v.c, v.x)
		VMOVAPS(v.a, v.c)
		VMULPS(v.a, v.a, v.d)
	})
	polynomialTwice(each, arctangentCoefficients, inD, inB)
	all(each, func(v vectors) { VMULPS(v.d, v.b, v.b) })
	addFromCircle(each)
	ofSign(each)
}
