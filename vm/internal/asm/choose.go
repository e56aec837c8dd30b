package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gathered is the order in which vectors of 32-bit lanes, packed twice, have the lanes of
// each vector side by side again.
func gathered() Mem {
	return table("gathered", func() {
		for i, lane := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
			DATA(4*i, U32(lane))
		}
	})
}

// compare writes the loop of a relation of two lists. A list whose step is 0 repeats.
func compare(name, doc string, predicate uint64) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst *uint8, a, b *float32, n, aStep, bStep int)")
	Doc(doc)
	dst, a, b, n, aStep, bStep := RDI, RSI, RDX, RCX, R8, R9
	Load(Param("dst"), dst)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("n"), n)
	Load(Param("aStep"), aStep)
	Load(Param("bStep"), bStep)
	VMOVDQU(gathered(), Y15)
	one(Y14)
	y := []VecPhysical{Y0, Y1, Y2, Y3}
	Label("thirtytwo")
	for _, p := range []Register{a, b} { // 128 bytes of each
		PREFETCHT0(Mem{Base: p, Disp: ahead})
		PREFETCHT0(Mem{Base: p, Disp: ahead + 64})
	}
	for i := range y {
		VMOVUPS(Mem{Base: a, Disp: 32 * i}, y[i])
	}
	for i := range y {
		VCMPPS(Imm(predicate), Mem{Base: b, Disp: 32 * i}, y[i], y[i])
	}
	VPACKSSDW(Y1, Y0, Y0)
	VPACKSSDW(Y3, Y2, Y2)
	VPACKSSWB(Y2, Y0, Y0)
	VPERMD(Y0, Y15, Y0)
	VPAND(Y14, Y0, Y0)
	VMOVDQU(Y0, Mem{Base: dst})
	ADDQ(aStep, a)
	ADDQ(bStep, b)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("thirtytwo"))
	VZEROUPPER()
	RET()
}

// one sets all bytes to 1.
func one(y VecPhysical) {
	VPCMPEQB(y, y, y)
	VPABSB(y, y)
}

// logic writes the loop of an operation on two lists of truth values: op takes the bytes
// and a vector of zeros, and leaves in a the bytes that are all ones where it is false.
func logic(name, doc string, op func(zero, b, a VecPhysical)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, a, b *uint8, n int)")
	Doc(doc)
	dst, a, b, n := RDI, RSI, RDX, RCX
	Load(Param("dst"), dst)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("n"), n)
	one(Y14)
	VPXOR(Y15, Y15, Y15)
	Label("thirtytwo")
	PREFETCHT0(Mem{Base: a, Disp: ahead})
	PREFETCHT0(Mem{Base: b, Disp: ahead})
	VMOVDQU(Mem{Base: a}, Y0)
	VMOVDQU(Mem{Base: b}, Y1)
	op(Y15, Y1, Y0)
	VPANDN(Y14, Y0, Y0)
	VMOVDQU(Y0, Mem{Base: dst})
	for _, p := range []Register{a, b, dst} {
		ADDQ(Imm(32), p)
	}
	SUBQ(Imm(32), n)
	JNZ(LabelRef("thirtytwo"))
	VZEROUPPER()
	RET()
}

// and: one of the two is 0.
func and(zero, b, a VecPhysical) {
	VPCMPEQB(zero, a, a)
	VPCMPEQB(zero, b, b)
	VPOR(b, a, a)
}

// or: both are 0.
func or(zero, b, a VecPhysical) {
	VPOR(b, a, a)
	VPCMPEQB(zero, a, a)
}

// xor: both are 0, or neither is.
func xor(zero, b, a VecPhysical) {
	VPCMPEQB(zero, a, a)
	VPCMPEQB(zero, b, b)
	VPCMPEQB(b, a, a)
}

// not: a is not 0.
func not(zero, _, a VecPhysical) {
	VPCMPEQB(zero, a, a)
	VPCMPEQB(zero, a, a)
}

// choose writes the loop of a choice between two lists. A list whose step is 0 repeats.
func choose() {
	TEXT("chooseAVX2", NOSPLIT|NOFRAME, "func(dst *uint32, condition *uint8, a, b *uint32, n, aStep, bStep int)")
	Doc("chooseAVX2 writes a where the condition is not 0, else b, for n numbers, a multiple of 8.")
	dst, condition, a, b, n, aStep, bStep := RDI, RBX, RSI, RDX, RCX, R8, R9
	Load(Param("dst"), dst)
	Load(Param("condition"), condition)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("n"), n)
	Load(Param("aStep"), aStep)
	Load(Param("bStep"), bStep)
	VPXOR(Y15, Y15, Y15)
	Label("eight")
	VPMOVZXBD(Mem{Base: condition}, Y0)
	VPCMPEQD(Y15, Y0, Y0)
	VMOVUPS(Mem{Base: a}, Y1)
	VBLENDVPS(Y0, Mem{Base: b}, Y1, Y1)
	VMOVUPS(Y1, Mem{Base: dst})
	ADDQ(aStep, a)
	ADDQ(bStep, b)
	ADDQ(Imm(8), condition)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// choose16 is choose for numbers of 16 bits.
func choose16() {
	TEXT("choose16AVX2", NOSPLIT|NOFRAME, "func(dst *uint16, condition *uint8, a, b *uint16, n, aStep, bStep int)")
	Doc("choose16AVX2 writes a where the condition is not 0, else b, for n numbers, a multiple of 16.")
	dst, condition, a, b, n, aStep, bStep := RDI, RBX, RSI, RDX, RCX, R8, R9
	Load(Param("dst"), dst)
	Load(Param("condition"), condition)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("n"), n)
	Load(Param("aStep"), aStep)
	Load(Param("bStep"), bStep)
	VPXOR(Y15, Y15, Y15)
	Label("sixteen")
	VPMOVZXBW(Mem{Base: condition}, Y0)
	VPCMPEQW(Y15, Y0, Y0)
	VMOVDQU(Mem{Base: a}, Y1)
	VPBLENDVB(Y0, Mem{Base: b}, Y1, Y1)
	VMOVDQU(Y1, Mem{Base: dst})
	ADDQ(aStep, a)
	ADDQ(bStep, b)
	ADDQ(Imm(16), condition)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}
