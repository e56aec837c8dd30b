package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// nibbles writes the loop of numbers of 4 bits as real ones, 8 bytes at a time.
func nibbles() {
	TEXT("nibblesAVX2", NOSPLIT|NOFRAME, "func(dst *float32, src *uint8, n int, zero, scale float32)")
	Doc("nibblesAVX2 writes (x - zero)·scale for the low and the high half of each of n bytes, a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("zero", 24), Y14)
	VBROADCASTSS(NewParamAddr("scale", 28), Y15)
	bits(15, Y13)
	Label("eight")
	VPMOVZXBD(Mem{Base: RSI}, Y0)
	VPSRLD(Imm(4), Y0, Y1)
	VPAND(Y13, Y0, Y0)
	for _, y := range []VecPhysical{Y0, Y1} {
		VCVTDQ2PS(y, y)
		VSUBPS(Y14, y, y)
		VMULPS(Y15, y, y)
	}
	VUNPCKLPS(Y1, Y0, Y2) // each half on its own
	VUNPCKHPS(Y1, Y0, Y3)
	VPERM2F128(Imm(0x20), Y3, Y2, Y0)
	VPERM2F128(Imm(0x31), Y3, Y2, Y1)
	VMOVUPS(Y0, Mem{Base: RDI})
	VMOVUPS(Y1, Mem{Base: RDI, Disp: 32})
	ADDQ(Imm(8), RSI)
	ADDQ(Imm(64), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}
