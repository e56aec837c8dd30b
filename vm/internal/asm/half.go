package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// widenRows writes the loops of a function that widens rows of 16-bit numbers, eight at a
// time.
func widenRows(name, doc string, read func(m Mem)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst *float32, src *uint16, rows, columns, dstStep, srcStep int)")
	Doc(doc + "; columns is a multiple of 8, the steps are in bytes.")
	dst, src, rows, columns, dstStep, srcStep, x := RDI, RSI, RCX, RDX, R8, R9, RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("rows"), rows)
	Load(Param("columns"), columns)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	Label("row")
	XORQ(x, x)
	Label("column")
	read(Mem{Base: src, Index: x, Scale: 2})
	VMOVUPS(Y0, Mem{Base: dst, Index: x, Scale: 4})
	ADDQ(Imm(8), x)
	CMPQ(x, columns)
	JLT(LabelRef("column"))
	PREFETCHT0(Mem{Base: src, Index: x, Scale: 2, Disp: 63}) // the row's next numbers
	ADDQ(srcStep, src)
	ADDQ(dstStep, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func fromHalf(m Mem) { VCVTPH2PS(m, Y0) }

func fromBrain(m Mem) {
	VPMOVZXWD(m, Y0)
	VPSLLD(Imm(16), Y0, Y0)
}

// narrowed writes the loop of a function that rounds the numbers of Y0 to those that a 16-bit type
// has; n is a multiple of 8.
func narrowed(name, doc string, round func()) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *float32, n int)")
	Doc(doc + ", ties to even; n is a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	roundingBits()
	Label("eight")
	VMOVUPS(Mem{Base: RSI}, Y0)
	round()
	VMOVUPS(Y0, Mem{Base: RDI})
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(32), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// roundingBits sets the numbers that toBrain reads.
func roundingBits() {
	bits(1, Y13)
	bits(0x7fff, Y14)
	bits(0x400000, Y15)
}

// narrow writes the loop of a function that rounds the numbers of Y0 to X0; n is
// a multiple of 8.
func narrow(name, doc string, round func()) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst *uint16, src *float32, n int)")
	Doc(doc + ", ties to even; n is a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	roundingBits()
	Label("eight")
	VMOVUPS(Mem{Base: RSI}, Y0)
	round()
	VMOVDQU(X0, Mem{Base: RDI})
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(16), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

func toHalf() { VCVTPS2PH(Imm(0), Y0, X0) }

func asHalf() {
	toHalf()
	VCVTPH2PS(X0, Y0)
}

func toBrain() {
	upperBrain()
	VEXTRACTI128(Imm(1), Y0, X1)
	VPACKUSDW(X1, X0, X0)
}

func asBrain() {
	upperBrain()
	VPSLLD(Imm(16), Y0, Y0)
}

// upperBrain puts bfloat16 into the lower half of each number. It rounds by adding half a unit of
// the last place, or one bit less if the last place is even. NaN becomes quiet and keeps its
// upper bits.
func upperBrain() {
	VPSRLD(Imm(16), Y0, Y1)
	VPAND(Y13, Y1, Y1)
	VPADDD(Y14, Y1, Y1)
	VPADDD(Y0, Y1, Y1)
	VPOR(Y15, Y0, Y2)
	VCMPPS(Imm(3), Y0, Y0, Y0) // unordered
	VBLENDVPS(Y0, Y2, Y1, Y0)
	VPSRLD(Imm(16), Y0, Y0)
}
