package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// truncate cuts numbers towards 0.
func truncate() {
	TEXT("truncateAVX2", NOSPLIT|NOFRAME, "func(dst *int32, src *float32, n int)")
	Doc("truncateAVX2 cuts n numbers, a multiple of 8, towards 0; NaN and those out of range become the least integer.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	strides(RCX, func(disp int, y, _ VecPhysical) {
		VCVTTPS2DQ(Mem{Base: RSI, Disp: disp}, y)
		VMOVDQU(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDI)
}

// fromIntegers rounds integers to float32.
func fromIntegers() {
	TEXT("fromIntegersAVX2", NOSPLIT|NOFRAME, "func(dst *float32, src *int32, n int)")
	Doc("fromIntegersAVX2 rounds n integers, a multiple of 8, to the nearest float32.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	strides(RCX, func(disp int, y, _ VecPhysical) {
		VCVTDQ2PS(Mem{Base: RSI, Disp: disp}, y)
		VMOVUPS(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDI)
}

// truncateBytes leaves the low bytes of what truncate writes.
func truncateBytes() {
	TEXT("truncateBytesAVX2", NOSPLIT|NOFRAME, "func(dst *uint8, src *float32, n int)")
	Doc("truncateBytesAVX2 writes the low bytes of what truncateAVX2 does, for n numbers, a multiple of 32.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VMOVDQU(gathered(), Y15)
	bits(0xff, Y14)
	Label("thirtytwo")
	PREFETCHT0(Mem{Base: RSI, Disp: ahead})
	PREFETCHT0(Mem{Base: RSI, Disp: ahead + 64})
	for i, y := range []VecPhysical{Y0, Y1, Y2, Y3} {
		VCVTTPS2DQ(Mem{Base: RSI, Disp: 32 * i}, y)
		VPAND(Y14, y, y)
	}
	VPACKUSDW(Y1, Y0, Y0)
	VPACKUSDW(Y3, Y2, Y2)
	VPACKUSWB(Y2, Y0, Y0)
	VPERMD(Y0, Y15, Y0)
	VMOVDQU(Y0, Mem{Base: RDI})
	ADDQ(Imm(128), RSI)
	ADDQ(Imm(32), RDI)
	SUBQ(Imm(32), RCX)
	JNZ(LabelRef("thirtytwo"))
	VZEROUPPER()
	RET()
}

// interleaveWords puts the words of two lists by turns.
func interleaveWords() {
	TEXT("interleaveWordsAVX2", NOSPLIT|NOFRAME, "func(dst, a, b *uint32, n int)")
	Doc("interleaveWordsAVX2 writes the words of a and b by turns, n of each, a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	Load(Param("n"), RCX)
	Label("eight")
	PREFETCHT0(Mem{Base: RSI, Disp: ahead})
	PREFETCHT0(Mem{Base: RDX, Disp: ahead})
	VMOVDQU(Mem{Base: RSI}, Y0)
	VMOVDQU(Mem{Base: RDX}, Y1)
	VPUNPCKLDQ(Y1, Y0, Y2) // each half on its own
	VPUNPCKHDQ(Y1, Y0, Y3)
	VPERM2I128(Imm(0x20), Y3, Y2, Y0)
	VPERM2I128(Imm(0x31), Y3, Y2, Y1)
	VMOVDQU(Y0, Mem{Base: RDI})
	VMOVDQU(Y1, Mem{Base: RDI, Disp: 32})
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(32), RDX)
	ADDQ(Imm(64), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}
