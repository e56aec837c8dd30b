package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vectors are registers for one vector of numbers: the numbers, the numbers as they were
// read, and four for intermediate results.
type vectors struct{ x, read, a, b, c, d VecPhysical }

var both = []vectors{{Y0, Y1, Y2, Y3, Y4, Y5}, {Y6, Y7, Y8, Y9, Y10, Y11}}

// functionTwice is function for two vectors at a time, and then for one. Two share the
// constants, whose loads take as long as all else. body computes x of each vector; Y13 is
// for constants.
func functionTwice(name, doc, args string, body func(each []vectors)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *float32, n int, "+args+" float32)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	first, second, _ := strings.Cut(args, ", ")
	VBROADCASTSS(NewParamAddr(first, 24), Y14)
	VBROADCASTSS(NewParamAddr(second, 28), Y15)
	for n := 2; n > 0; n-- {
		here := fmt.Sprintf("by%d", n)
		Label(here)
		SUBQ(Imm(uint64(8*n)), RCX)
		JLT(LabelRef(here + "less"))
		PREFETCHT0(Mem{Base: RSI, Disp: ahead})
		for i, v := range both[:n] {
			VMOVUPS(Mem{Base: RSI, Disp: 32 * i}, v.x)
		}
		body(both[:n])
		for i, v := range both[:n] {
			VMOVUPS(v.x, Mem{Base: RDI, Disp: 32 * i})
		}
		ADDQ(Imm(uint64(32*n)), RSI)
		ADDQ(Imm(uint64(32*n)), RDI)
		JMP(LabelRef(here))
		Label(here + "less")
		ADDQ(Imm(uint64(8*n)), RCX)
	}
	VZEROUPPER()
	RET()
}

// all applies f to each vector.
func all(each []vectors, f func(v vectors)) {
	for _, v := range each {
		f(v)
	}
}

// shared loads a constant that an operation takes for each vector.
func shared(x float32) VecPhysical {
	constant(x, Y13)
	return Y13
}

// sign loads the sign bit.
func sign() VecPhysical {
	bits(1<<31, Y13)
	return Y13
}

// polynomialTwice computes c[0] + c[1]·x + … in p by Horner's rule.
func polynomialTwice(each []vectors, coefficients []float32, x, p func(v vectors) VecPhysical) {
	for k := len(coefficients) - 1; k >= 0; k-- {
		c := shared(coefficients[k])
		all(each, func(v vectors) {
			if k == len(coefficients)-1 {
				VMOVAPS(c, p(v))
				return
			}
			VFMADD213PS(c, x(v), p(v))
		})
	}
}

func inX(v vectors) VecPhysical { return v.x }
func inB(v vectors) VecPhysical { return v.b }
func inD(v vectors) VecPhysical { return v.d }

// linearTwice applies body to scale·x + shift.
func linearTwice(body func(each []vectors)) func(each []vectors) {
	return func(each []vectors) {
		all(each, func(v vectors) { VFMADD213PS(Y15, Y14, v.x) })
		body(each)
	}
}

// exponentialTwice computes exp(x) as 2^n · exp(r), where n is an integer and r = x - n·ln(2)
// is small (Cody & Waite 1980, chapter 6). Its relative error is below one unit in the last
// place. Beyond the limits the result is infinite or 0; NaN stays, because x is the second
// source operand. It uses a, b and c.
func exponentialTwice(each []vectors) {
	c := shared(88.8)
	all(each, func(v vectors) { VMINPS(v.x, c, v.x) })
	shared(-104.5)
	all(each, func(v vectors) { VMAXPS(v.x, c, v.x) })
	shared(math.Log2E)
	all(each, func(v vectors) {
		VMULPS(v.x, c, v.a)
		VROUNDPS(Imm(8), v.a, v.a) // n
	})
	shared(-0.693359375)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) })
	shared(2.12194440e-4)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) }) // r
	polynomialTwice(each, expCoefficients, inX, inB)
	shared(1)
	all(each, func(v vectors) {
		VMULPS(v.x, v.x, v.c)
		VFMADD213PS(v.x, v.c, v.b)
		VADDPS(c, v.b, v.x)
		VCVTPS2DQ(v.a, v.a)
		VPSRAD(Imm(1), v.a, v.b)
		VPSUBD(v.b, v.a, v.a)
	})
	bits(127, c)
	all(each, func(v vectors) { // 2^n in two steps: n may exceed the exponents of normal numbers
		for _, n := range []VecPhysical{v.a, v.b} {
			VPADDD(c, n, n)
			VPSLLD(Imm(23), n, n)
			VMULPS(n, v.x, v.x)
		}
	})
}

// logisticTwice is 1 / (1 + exp(-x)).
func logisticTwice(each []vectors) {
	c := sign()
	all(each, func(v vectors) { VXORPS(c, v.x, v.x) })
	exponentialTwice(each)
	shared(1)
	all(each, func(v vectors) {
		VADDPS(c, v.x, v.x)
		VDIVPS(v.x, c, v.x)
	})
}

// swishTwice is x times the logistic function of the first argument times x, in this order, which
// decides the sign of a NaN.
func swishTwice(each []vectors) {
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VMULPS(Y14, v.x, v.x)
	})
	logisticTwice(each)
	all(each, func(v vectors) { VMULPS(v.x, v.read, v.x) })
}

// errorFunctionTwice is erf, by a polynomial up to 1 and by exp beyond. Its relative error is
// below two units in the last place. again puts x into a once more, when all registers have
// been used.
func errorFunctionTwice(each []vectors, again func(each []vectors)) {
	c := sign()
	all(each, func(v vectors) {
		VANDNPS(v.x, c, v.a) // |x|
		VMULPS(v.a, v.a, v.b)
	})
	polynomialTwice(each, erfSmall, inB, inD)
	shared(4)
	all(each, func(v vectors) {
		VMULPS(v.a, v.d, v.d)
		VMINPS(v.a, c, v.b)
	})
	polynomialTwice(each, erfLarge, inB, inX)
	sign()
	all(each, func(v vectors) { VXORPS(c, v.x, v.x) })
	exponentialTwice(each)
	again(each)
	sign()
	all(each, func(v vectors) {
		VANDPS(v.a, c, v.c)
		VANDNPS(v.a, c, v.a)
	})
	shared(1)
	all(each, func(v vectors) {
		VSUBPS(v.x, c, v.x)
		VCMPPS(Imm(1), c, v.a, v.b) // |x| < 1
		VBLENDVPS(v.b, v.d, v.x, v.x)
		VORPS(v.c, v.x, v.x)
	})
}

// erfTwice is errorFunctionTwice of scale·x + shift.
func erfTwice(each []vectors) {
	all(each, func(v vectors) {
		VFMADD213PS(Y15, Y14, v.x)
		VMOVAPS(v.x, v.read)
	})
	errorFunctionTwice(each, func(each []vectors) {
		all(each, func(v vectors) { VMOVAPS(v.read, v.a) })
	})
}

// geluTwice computes x·(1 + erf(x/√2))/2.
func geluTwice(each []vectors) {
	c := shared(math.Sqrt2 / 2)
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VMULPS(c, v.x, v.x)
	})
	errorFunctionTwice(each, func(each []vectors) {
		shared(math.Sqrt2 / 2)
		all(each, func(v vectors) { VMULPS(c, v.read, v.a) })
	})
	halfTwice(each)
}

// halfTwice is read·(1 + x)/2.
func halfTwice(each []vectors) {
	c := shared(1)
	all(each, func(v vectors) {
		VADDPS(c, v.x, v.x)
		VMULPS(v.read, v.x, v.x)
	})
	shared(0.5)
	all(each, func(v vectors) { VMULPS(c, v.x, v.x) })
}

// hyperbolicTangentTwice is tanh as t/(t + 2) with t = exp(2·|x|) - 1, which is as accurate
// near 0: with n and r as in exponentialTwice, t = 2^n·(exp(r) - 1) + (2^n - 1). From 9.02 on,
// the result is 1. Its relative error is below three units in the last place.
func hyperbolicTangentTwice(each []vectors) {
	c := sign()
	all(each, func(v vectors) {
		VANDPS(v.x, c, v.d)
		VANDNPS(v.x, c, v.x) // |x|
	})
	shared(9.02)
	all(each, func(v vectors) { VMINPS(v.x, c, v.x) }) // NaN stays
	shared(2 * math.Log2E)
	all(each, func(v vectors) {
		VMULPS(v.x, c, v.a)
		VROUNDPS(Imm(8), v.a, v.a) // n
		VADDPS(v.x, v.x, v.x)
	})
	shared(-0.693359375)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) })
	shared(2.12194440e-4)
	all(each, func(v vectors) { VFMADD231PS(c, v.a, v.x) }) // r
	polynomialTwice(each, expCoefficients, inX, inB)
	bits(127, c)
	all(each, func(v vectors) {
		VMULPS(v.x, v.x, v.c)
		VFMADD213PS(v.x, v.c, v.b) // exp(r) - 1
		VCVTPS2DQ(v.a, v.a)
		VPADDD(c, v.a, v.a)
		VPSLLD(Imm(23), v.a, v.a) // 2^n
	})
	shared(1)
	all(each, func(v vectors) {
		VSUBPS(c, v.a, v.x)
		VFMADD213PS(v.x, v.a, v.b) // t
	})
	shared(2)
	all(each, func(v vectors) {
		VADDPS(c, v.b, v.x)
		VDIVPS(v.x, v.b, v.x)
		VORPS(v.d, v.x, v.x)
	})
}

// geluTanhTwice is geluTwice with tanh(√(2/π)·(x + 0.044715·x³)) instead of erf(x/√2).
func geluTanhTwice(each []vectors) {
	c := shared(0.044715 * math.Sqrt2 * (2 / math.SqrtPi) / 2)
	all(each, func(v vectors) {
		VMOVAPS(v.x, v.read)
		VMULPS(v.x, v.x, v.a)
		constant(math.Sqrt2*(2/math.SqrtPi)/2, v.b)
		VFMADD213PS(v.b, c, v.a)
		VMULPS(v.a, v.x, v.x)
	})
	hyperbolicTangentTwice(each)
	halfTwice(each)
}
