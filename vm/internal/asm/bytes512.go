package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The conversions to bytes for sixteen numbers at a time, where AVX-512 narrows them with
// one instruction. The arithmetic, and so the bits, are those of eight at a time.

// sixteen writes the loop of a conversion, with a mask for the last numbers. Rows are short,
// and one number at a time takes as long as sixteen. scale scales the numbers in Z0 by Z12;
// further arguments are in Z15 and Z11.
func sixteen(scale func()) {
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VBROADCASTSS(NewParamAddr("scale", 24), Z12)
	VBROADCASTSS(NewParamAddr("low", 28), Z13)
	VBROADCASTSS(NewParamAddr("high", 32), Z14)
	VBROADCASTSS(NewParamAddr("zero", 36), Z15)
	convert := func() {
		scale()
		VMAXPS(Z13, Z0, Z0) // turns NaN into low
		VMINPS(Z14, Z0, Z0)
		VCVTPS2DQ(Z0, Z0)
		VPADDD(Z15, Z0, Z0)
	}
	SUBQ(Imm(16), n)
	JLT(LabelRef("rest"))
	Label("sixteen")
	VMOVUPS(Mem{Base: src}, Z0)
	convert()
	VPMOVDB(Z0, Mem{Base: dst})
	ADDQ(Imm(64), src)
	ADDQ(Imm(16), dst)
	SUBQ(Imm(16), n)
	JGE(LabelRef("sixteen"))
	Label("rest")
	ADDQ(Imm(16), n)
	JZ(LabelRef("end"))
	MOVL(U32(1), EAX)
	SHLL(CL, EAX) // n is RCX
	DECL(EAX)
	KMOVW(EAX, K1)
	VMOVUPS_Z(Mem{Base: src}, K1, Z0)
	convert()
	VPMOVDB(Z0, K1, Mem{Base: dst})
	Label("end")
	VZEROUPPER()
	RET()
}

func quantize512() {
	TEXT("quantizeAVX512", NOSPLIT|NOFRAME, "func(dst *uint8, src *float32, n int, scale, low, high float32, zero int32)")
	Doc("quantizeAVX512 is quantizeAVX2 for any n.")
	sixteen(func() { VDIVPS(Z12, Z0, Z0) })
}

func requantize512() {
	TEXT("requantizeAVX512", NOSPLIT|NOFRAME, "func(dst *uint8, src *int32, n int, scale, low, high float32, zero, bias int32)")
	Doc("requantizeAVX512 is requantizeAVX2 for any n.")
	VBROADCASTSS(NewParamAddr("bias", 40), Z11)
	sixteen(func() {
		VPADDD(Z0, Z11, Z0)
		VCVTDQ2PS(Z0, Z0)
		VMULPS(Z12, Z0, Z0)
	})
}
