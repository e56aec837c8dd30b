package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The most frequent functions for sixteen numbers at a time. The instructions, and so the
// bits, are those of eight at a time.

// function512 is function for sixteen numbers in Z0; n is a multiple of 16, and the two
// arguments are in Z14 and Z15.
func function512(name, doc string, body func()) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *float32, n int, scale, shift float32)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("scale", 24), Z14)
	VBROADCASTSS(NewParamAddr("shift", 28), Z15)
	for i, x := range wideConstants {
		bits512(math.Float32bits(x), wideRegister(i))
	}
	bits512(1<<31, Z6)
	bits512(127, Z7)
	Label("sixteen")
	PREFETCHT0(Mem{Base: RSI, Disp: ahead})
	VMOVUPS(Mem{Base: RSI}, Z0)
	body()
	VMOVUPS(Z0, Mem{Base: RDI})
	ADDQ(Imm(64), RSI)
	ADDQ(Imm(64), RDI)
	SUBQ(Imm(16), RCX)
	JNZ(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}

// linear512 is linear for sixteen numbers.
func linear512(body func()) func() {
	return func() {
		VFMADD213PS(Z15, Z14, Z0)
		body()
	}
}

// wideConstants stay in the registers from Z16 on.
var wideConstants = append([]float32{88.8, -104.5, math.Log2E, -0.693359375, 2.12194440e-4, 1}, expCoefficients...)

func wideRegister(i int) VecPhysical {
	return []VecPhysical{Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26}[i]
}

func bits512(b uint32, z VecPhysical) { VBROADCASTSS(placeOf(b), z) }

// polynomial512 is polynomial, with coefficients that stay in memory.
func polynomial512(c []float32, x, p VecPhysical) {
	bits512(math.Float32bits(c[len(c)-1]), p)
	for k := len(c) - 2; k >= 0; k-- {
		VFMADD213PS_BCST(placeOf(math.Float32bits(c[k])), x, p)
	}
}

// exponential512 is exponentialTwice in Z0. It uses Z1 to Z3.
func exponential512() { exponentialBy512(func() { VSCALEFPS(Z1, Z0, Z0) }) }

// exponentialAlone512 is exponential512 for what is often far below the least exponent, such as the
// scores that a mask leaves out: some processors take hundreds of cycles to make a number that is too
// small, so that those are not computed.
func exponentialAlone512() {
	VCMPPS(Imm(5), wideRegister(1), Z0, K1) // not below, or NaN
	exponentialBy512(func() { VSCALEFPS_Z(Z1, Z0, K1, Z0) })
}

// exponentialBy512 multiplies Z0 by 2 to the power of Z1 by a function.
func exponentialBy512(scale func()) {
	one := wideRegister(5)
	VMINPS(Z0, wideRegister(0), Z0)
	VMAXPS(Z0, wideRegister(1), Z0)
	VMULPS(Z0, wideRegister(2), Z1)
	VRNDSCALEPS(Imm(8), Z1, Z1) // n
	VFMADD231PS(wideRegister(3), Z1, Z0)
	VFMADD231PS(wideRegister(4), Z1, Z0) // r
	last := len(expCoefficients) - 1
	VMOVAPS(wideRegister(6+last), Z2)
	for k := last - 1; k >= 0; k-- {
		VFMADD213PS(wideRegister(6+k), Z0, Z2)
	}
	VMULPS(Z0, Z0, Z3)
	VFMADD213PS(Z0, Z3, Z2)
	VADDPS(one, Z2, Z0)
	scale() // times 2^n: rounded once, as the two products of exponentialTwice are
}

// logistic512 is 1 / (1 + exp(-x)) in Z0.
func logistic512() {
	VPXORD(Z6, Z0, Z0)
	exponential512()
	VADDPS(wideRegister(5), Z0, Z0)
	VDIVPS(Z0, wideRegister(5), Z0)
}

// swish512 is swish in Z0.
func swish512() {
	VMOVAPS(Z0, Z10)
	VMULPS(Z14, Z0, Z0)
	logistic512()
	VMULPS(Z0, Z10, Z0)
}

// errorFunction512 is errorFunctionTwice in Z0. It uses Z1 to Z5, Z8 and Z9.
func errorFunction512() {
	one := wideRegister(5)
	VPANDD(Z0, Z6, Z5)  // sign
	VPANDND(Z0, Z6, Z8) // |x|
	VMULPS(Z8, Z8, Z1)
	polynomial512(erfSmall, Z1, Z9)
	VMULPS(Z8, Z9, Z9)
	bits512(math.Float32bits(4), Z1)
	VMINPS(Z8, Z1, Z1)
	polynomial512(erfLarge, Z1, Z0)
	VPXORD(Z6, Z0, Z0)
	exponential512()
	VSUBPS(Z0, one, Z0)
	VCMPPS(Imm(1), one, Z8, K1) // |x| < 1
	VMOVAPS(Z9, K1, Z0)
	VPORD(Z5, Z0, Z0)
}

// hyperbolicTangent512 is hyperbolicTangentTwice in Z0. It uses Z1 to Z3 and Z5.
func hyperbolicTangent512() {
	VPANDD(Z0, Z6, Z5)  // sign
	VPANDND(Z0, Z6, Z0) // |x|
	bits512(math.Float32bits(9.02), Z2)
	VMINPS(Z0, Z2, Z0)
	bits512(math.Float32bits(2*math.Log2E), Z2)
	VMULPS(Z0, Z2, Z1)
	VRNDSCALEPS(Imm(8), Z1, Z1) // n
	VADDPS(Z0, Z0, Z0)
	VFMADD231PS(wideRegister(3), Z1, Z0)
	VFMADD231PS(wideRegister(4), Z1, Z0) // r
	last := len(expCoefficients) - 1
	VMOVAPS(wideRegister(6+last), Z2)
	for k := last - 1; k >= 0; k-- {
		VFMADD213PS(wideRegister(6+k), Z0, Z2)
	}
	VMULPS(Z0, Z0, Z3)
	VFMADD213PS(Z0, Z3, Z2) // exp(r) - 1
	VCVTPS2DQ(Z1, Z1)
	VPADDD(Z7, Z1, Z1)
	VPSLLD(Imm(23), Z1, Z1) // 2^n
	VSUBPS(wideRegister(5), Z1, Z0)
	VFMADD213PS(Z0, Z1, Z2) // t
	VADDPS_BCST(placeOf(math.Float32bits(2)), Z2, Z0)
	VDIVPS(Z0, Z2, Z0)
	VPORD(Z5, Z0, Z0)
}

// gelu512 is gelu in Z0.
func gelu512() {
	VMOVAPS(Z0, Z10)
	VMULPS_BCST(placeOf(math.Float32bits(math.Sqrt2/2)), Z0, Z0)
	errorFunction512()
	VADDPS(wideRegister(5), Z0, Z0)
	VMULPS(Z10, Z0, Z0)
	VMULPS_BCST(placeOf(math.Float32bits(0.5)), Z0, Z0)
}
