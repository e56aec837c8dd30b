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
// read, and three for intermediate results.
type vectors struct{ x, read, a, b, c VecPhysical }

var both = []vectors{{Y0, Y1, Y2, Y3, Y4}, {Y5, Y6, Y7, Y8, Y9}}

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

// shared loads a constant that an operation takes for each vector.
func shared(x float64) VecPhysical {
	constant(float32(x), Y13)
	return Y13
}

// linearTwice applies body to scale·x + shift.
func linearTwice(body func(each []vectors)) func(each []vectors) {
	return func(each []vectors) {
		for _, v := range each {
			VFMADD213PS(Y15, Y14, v.x)
		}
		body(each)
	}
}

// exponentialTwice is exponential.
func exponentialTwice(each []vectors) {
	do := func(f func(v vectors)) {
		for _, v := range each {
			f(v)
		}
	}
	c := shared(88.8)
	do(func(v vectors) { VMINPS(v.x, c, v.x) })
	shared(-104.5)
	do(func(v vectors) { VMAXPS(v.x, c, v.x) })
	shared(math.Log2E)
	do(func(v vectors) {
		VMULPS(v.x, c, v.a)
		VROUNDPS(Imm(8), v.a, v.a) // n
	})
	shared(-0.693359375)
	do(func(v vectors) { VFMADD231PS(c, v.a, v.x) })
	shared(2.12194440e-4)
	do(func(v vectors) { VFMADD231PS(c, v.a, v.x) }) // r
	for i := len(expCoefficients) - 1; i >= 0; i-- {
		constant(expCoefficients[i], c)
		do(func(v vectors) {
			if i == len(expCoefficients)-1 {
				VMOVAPS(c, v.b)
				return
			}
			VFMADD213PS(c, v.x, v.b)
		})
	}
	shared(1)
	do(func(v vectors) {
		VMULPS(v.x, v.x, v.c)
		VFMADD213PS(v.x, v.c, v.b)
		VADDPS(c, v.b, v.x)
		VCVTPS2DQ(v.a, v.a)
		VPSRAD(Imm(1), v.a, v.b)
		VPSUBD(v.b, v.a, v.a)
	})
	bits(127, c)
	do(func(v vectors) {
		for _, n := range []VecPhysical{v.a, v.b} {
			VPADDD(c, n, n)
			VPSLLD(Imm(23), n, n)
			VMULPS(n, v.x, v.x)
		}
	})
}

// logisticTwice is 1 / (1 + exp(-x)).
func logisticTwice(each []vectors) {
	bits(1<<31, Y13)
	for _, v := range each {
		VXORPS(Y13, v.x, v.x)
	}
	exponentialTwice(each)
	one := shared(1)
	for _, v := range each {
		VADDPS(one, v.x, v.x)
		VDIVPS(v.x, one, v.x)
	}
}

// swishTwice is x times the logistic function of the first argument times x.
func swishTwice(each []vectors) {
	for _, v := range each {
		VMOVAPS(v.x, v.read)
		VMULPS(Y14, v.x, v.x)
	}
	logisticTwice(each)
	for _, v := range each {
		VMULPS(v.read, v.x, v.x)
	}
}
