package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Coefficients of Cephes (Moshier 1992): logf, sinf, cosf.
var (
	logCoefficients = []float32{3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1, -1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2}
	sinCoefficients = []float32{-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4}
	cosCoefficients = []float32{4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5}
	halfPi          = []float32{1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8} // a sum
)

// logTwice is log(x): that of the power of two, and a polynomial for the rest, which is
// between √½ and √2. Its error is below two units in the last place.
func logTwice(each []vectors) {
	c := shared(0x1p-126)
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VCMPPS(Imm(17), c, v.x, v.d) // no normal number
	})
	shared(0x1p23)
	all(each, func(v vectors) {
		VMULPS(c, v.x, v.b)
		VBLENDVPS(v.d, v.b, v.x, v.x)
	})
	shared(23)
	all(each, func(v vectors) {
		VANDPS(c, v.d, v.d) // what the power of two is too large by
		VPSRLD(Imm(23), v.x, v.a)
	})
	bits(126, c)
	all(each, func(v vectors) { VPSUBD(c, v.a, v.a) })
	all(each, func(v vectors) {
		VCVTDQ2PS(v.a, v.a)
		VSUBPS(v.d, v.a, v.a) // the power of two
	})
	bits(1<<23-1, c)
	all(each, func(v vectors) { VANDPS(c, v.x, v.x) })
	shared(0.5)
	all(each, func(v vectors) { VORPS(c, v.x, v.x) }) // the rest, from ½ to 1
	shared(math.Sqrt2 / 2)
	all(each, func(v vectors) { VCMPPS(Imm(17), c, v.x, v.b) })
	all(each, func(v vectors) {
		VANDPS(v.x, v.b, v.c)
		VADDPS(v.c, v.x, v.x)
	})
	shared(1)
	all(each, func(v vectors) {
		VANDPS(c, v.b, v.b)
		VSUBPS(v.b, v.a, v.a)
		VSUBPS(c, v.x, v.x)
		VMULPS(v.x, v.x, v.c)
	})
	polynomialTwice(each, logCoefficients, inX, inB)
	all(each, func(v vectors) {
		VMULPS(v.x, v.b, v.b)
		VMULPS(v.c, v.b, v.b)
	})
	shared(-2.12194440e-4)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.b) })
	shared(-0.5)
	all(each, func(v vectors) {
		VFMADD231PS(c, v.c, v.b)
		VADDPS(v.b, v.x, v.x)
	})
	shared(0.693359375)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) })
	shared(math.MaxFloat32)
	all(each, func(v vectors) { // infinity and NaN stay
		VCMPPS(Imm(22), c, v.read, v.b)
		VBLENDVPS(v.b, v.read, v.x, v.x)
	})
	VXORPS(c, c, c)
	all(each, func(v vectors) {
		VCMPPS(Imm(0), c, v.read, v.a)
		VCMPPS(Imm(17), c, v.read, v.b)
	})
	bits(math.Float32bits(float32(math.Inf(-1))), c)
	all(each, func(v vectors) { VBLENDVPS(v.a, c, v.x, v.x) })
	bits(0x7fc00000, c)
	all(each, func(v vectors) { VBLENDVPS(v.b, c, v.x, v.x) })
}

// circleTwice is sin(x), or cos(x) if quarters is 1. x less the nearest multiple of a quarter
// of the circle goes into two polynomials; which quarter it is says which to take, and its
// sign. x is at most 8192.
func circleTwice(quarters uint32) func(each []vectors) {
	return func(each []vectors) {
		c := shared(2 / math.Pi)
		all(each, func(v vectors) {
			VMULPS(c, v.x, v.a)
			VROUNDPS(Imm(8), v.a, v.a)
			VCVTPS2DQ(v.a, v.b) // the quarter
		})
		for _, part := range halfPi {
			shared(-part)
			all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) })
		}
		all(each, func(v vectors) { VMULPS(v.x, v.x, v.c) })
		polynomialTwice(each, sinCoefficients, inC, inA)
		polynomialTwice(each, cosCoefficients, inC, inD)
		all(each, func(v vectors) {
			VMULPS(v.c, v.a, v.a)
			VFMADD213PS(v.x, v.x, v.a) // a·x + x
			VMULPS(v.c, v.d, v.d)
			VMULPS(v.c, v.d, v.d)
		})
		shared(-0.5)
		all(each, func(v vectors) { VFMADD231PS(c, v.c, v.d) })
		shared(1)
		all(each, func(v vectors) { VADDPS(c, v.d, v.d) })
		bits(quarters, c)
		all(each, func(v vectors) {
			VPADDD(c, v.b, v.b)
			VPSLLD(Imm(31), v.b, v.c) // odd: the cosine
			VBLENDVPS(v.c, v.d, v.a, v.x)
			VPSRLD(Imm(1), v.b, v.b)
			VPSLLD(Imm(31), v.b, v.b) // the sign
			VXORPS(v.b, v.x, v.x)
		})
	}
}

func inA(v vectors) VecPhysical { return v.a }
func inC(v vectors) VecPhysical { return v.c }
