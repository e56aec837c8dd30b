package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// copyRows copies rows of 16 columns; they stand dstStep and srcStep bytes apart.
func copyRows() {
	TEXT("copyRows", NOSPLIT|NOFRAME, "func(dst, src *byte, rows, dstStep, srcStep int)")
	Doc("copyRows copies rows of 16 columns.")
	dst, src, rows, dstStep, srcStep := RDI, RSI, RCX, R8, R9
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("rows"), rows)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	Label("row")
	VMOVUPS(Mem{Base: src}, Y0)
	VMOVUPS(Mem{Base: src, Disp: 32}, Y1)
	VMOVUPS(Y0, Mem{Base: dst})
	VMOVUPS(Y1, Mem{Base: dst, Disp: 32})
	ADDQ(srcStep, src)
	ADDQ(dstStep, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// evens copies every second number.
func evens() {
	TEXT("evensAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, n int)")
	Doc("evensAVX2 copies every second of 2·n numbers; n is a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	Label("eight")
	VMOVUPS(Mem{Base: RSI}, Y0)
	VSHUFPS(Imm(0x88), Mem{Base: RSI, Disp: 32}, Y0, Y0)
	VPERMPD(Imm(0xd8), Y0, Y0)
	VMOVUPS(Y0, Mem{Base: RDI})
	ADDQ(Imm(64), RSI)
	ADDQ(Imm(32), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}
