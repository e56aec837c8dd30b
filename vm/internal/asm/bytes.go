package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Flipping the top bit (flip 0x80) of a signed byte adds 128 and makes it unsigned. So
// one function serves signed and unsigned bytes, if the zero point is flipped, too.

// widen subtracts a zero point from bytes and writes them as int16.
func widen() {
	TEXT("widenAVX2", NOSPLIT|NOFRAME, "func(dst *int16, src *uint8, n int, flip uint8, zero int16)")
	Doc("widenAVX2 writes n bytes, a multiple of 16, less a zero point as int16.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VPBROADCASTB(NewParamAddr("flip", 24), X15)
	VPBROADCASTW(NewParamAddr("zero", 26), Y14)
	Label("sixteen")
	VPXOR(Mem{Base: src}, X15, X0)
	VPMOVZXBW(X0, Y0)
	VPSUBW(Y14, Y0, Y0)
	VMOVDQU(Y0, Mem{Base: dst})
	ADDQ(Imm(16), src)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}

// interleave interleaves two rows of 16 bytes to pairs.
func interleave() {
	TEXT("interleaveAVX2", NOSPLIT|NOFRAME, "func(dst *int16, src *uint8, count, step int, zeros *int16, flip uint8)")
	Doc("interleaveAVX2 makes pairs of count times two rows of 16 bytes; rows stand step bytes apart.")
	dst, src, count, step, zeros := RDI, RSI, RCX, RDX, RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("count"), count)
	Load(Param("step"), step)
	Load(Param("zeros"), zeros)
	VPBROADCASTB(NewParamAddr("flip", 40), X15)
	VMOVDQU(Mem{Base: zeros}, Y13)
	VMOVDQU(Mem{Base: zeros, Disp: 32}, Y14)
	Label("pair")
	VPXOR(Mem{Base: src}, X15, X0)
	VPXOR(Mem{Base: src, Index: step, Scale: 1}, X15, X1)
	VPUNPCKLBW(X1, X0, X2)
	VPUNPCKHBW(X1, X0, X3)
	VPMOVZXBW(X2, Y2)
	VPMOVZXBW(X3, Y3)
	VPSUBW(Y13, Y2, Y2)
	VPSUBW(Y14, Y3, Y3)
	VMOVDQU(Y2, Mem{Base: dst})
	VMOVDQU(Y3, Mem{Base: dst, Disp: 32})
	LEAQ(Mem{Base: src, Index: step, Scale: 2}, src)
	ADDQ(Imm(64), dst)
	DECQ(count)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// interleaveFour interleaves four rows of 16 bytes to quads.
func interleaveFour() {
	TEXT("quadRowsAVX2", NOSPLIT|NOFRAME, "func(dst, src *uint8, count, step int, flip uint8)")
	Doc("quadRowsAVX2 makes quads of count times four rows of 16 bytes; rows stand step bytes apart.")
	dst, src, count, step, third := RDI, RSI, RCX, RDX, RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("count"), count)
	Load(Param("step"), step)
	VPBROADCASTB(NewParamAddr("flip", 32), X15)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, third)
	Label("quad")
	VPXOR(Mem{Base: src}, X15, X0)
	VPXOR(Mem{Base: src, Index: step, Scale: 1}, X15, X1)
	VPXOR(Mem{Base: src, Index: step, Scale: 2}, X15, X2)
	VPXOR(Mem{Base: src, Index: third, Scale: 1}, X15, X3)
	VPUNPCKLBW(X1, X0, X4)
	VPUNPCKHBW(X1, X0, X5)
	VPUNPCKLBW(X3, X2, X6)
	VPUNPCKHBW(X3, X2, X7)
	VPUNPCKLWD(X6, X4, X0)
	VPUNPCKHWD(X6, X4, X1)
	VPUNPCKLWD(X7, X5, X2)
	VPUNPCKHWD(X7, X5, X3)
	for i, x := range []VecPhysical{X0, X1, X2, X3} {
		VMOVDQU(x, Mem{Base: dst, Disp: 16 * i})
	}
	LEAQ(Mem{Base: src, Index: step, Scale: 4}, src)
	ADDQ(Imm(64), dst)
	DECQ(count)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

// interleaveFourTwice interleaves four rows of 32 bytes to the quads of two strips, and prefetches
// what lies ahead of each row.
func interleaveFourTwice() {
	TEXT("quadTwoRowsAVX2", NOSPLIT|NOFRAME, "func(dst, next, src *uint8, count, step, ahead int, flip uint8)")
	Doc("quadTwoRowsAVX2 is quadRowsAVX2 of 32 bytes: the quads of the second half go to next.")
	dst, next, src, count, step, third, ahead := RDI, R8, RSI, RCX, RDX, RAX, RBX
	Load(Param("dst"), dst)
	Load(Param("next"), next)
	Load(Param("src"), src)
	Load(Param("count"), count)
	Load(Param("step"), step)
	Load(Param("ahead"), ahead)
	VPBROADCASTB(NewParamAddr("flip", 48), Y15)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, third)
	ADDQ(src, ahead)
	Label("quad")
	for r, y := range []VecPhysical{Y0, Y1, Y2, Y3} {
		PREFETCHT0(rowOf(ahead, step, third, r))
		VPXOR(rowOf(src, step, third, r), Y15, y)
	}
	VPUNPCKLBW(Y1, Y0, Y4)
	VPUNPCKHBW(Y1, Y0, Y5)
	VPUNPCKLBW(Y3, Y2, Y6)
	VPUNPCKHBW(Y3, Y2, Y7)
	VPUNPCKLWD(Y6, Y4, Y0)
	VPUNPCKHWD(Y6, Y4, Y1)
	VPUNPCKLWD(Y7, Y5, Y2)
	VPUNPCKHWD(Y7, Y5, Y3)
	for i, y := range []VecPhysical{Y0, Y1, Y2, Y3} {
		VMOVDQU(y.AsX(), Mem{Base: dst, Disp: 16 * i})
		VEXTRACTI128(Imm(1), y, Mem{Base: next, Disp: 16 * i})
	}
	LEAQ(Mem{Base: src, Index: step, Scale: 4}, src)
	LEAQ(Mem{Base: ahead, Index: step, Scale: 4}, ahead)
	ADDQ(Imm(64), dst)
	ADDQ(Imm(64), next)
	DECQ(count)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

// signed copies bytes, flips them, and adds them up as unsigned numbers.
func signed() {
	TEXT("flipRowAVX2", NOSPLIT|NOFRAME, "func(dst, src *uint8, n int, flip, sign uint8) int")
	Doc("flipRowAVX2 writes n bytes, a multiple of 32, with flip, and returns the sum of the bytes with flip and sign.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VPBROADCASTB(NewParamAddr("flip", 24), Y15)
	VPBROADCASTB(NewParamAddr("sign", 25), Y14)
	VPXOR(Y13, Y13, Y13)
	VPXOR(Y12, Y12, Y12)
	Label("bytes")
	VPXOR(Mem{Base: src}, Y15, Y0)
	VMOVDQU(Y0, Mem{Base: dst})
	VPXOR(Y14, Y0, Y0)
	VPSADBW(Y13, Y0, Y0)
	VPADDQ(Y0, Y12, Y12)
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("bytes"))
	VEXTRACTI128(Imm(1), Y12, X0)
	VPADDQ(X0, X12, X0)
	VPSRLDQ(Imm(8), X0, X1)
	VPADDQ(X1, X0, X0)
	VMOVQ(X0, RAX)
	Store(RAX, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// toBytes rounds the numbers of Y0, which are in range, adds the zero point in Y15, and
// writes them as 8 bytes.
func toBytes(dst GPPhysical) {
	VCVTPS2DQ(Y0, Y0)
	VPADDD(Y15, Y0, Y0)
	VEXTRACTI128(Imm(1), Y0, X1)
	// Take the low byte of each number, signed or not.
	lowBytes := table("lowBytes", func() {
		DATA(0, U64(0xffffffff0c080400))
		DATA(8, U64(0xffffffffffffffff))
	})
	VPSHUFB(lowBytes, X0, X0)
	VPSHUFB(lowBytes, X1, X1)
	VPUNPCKLDQ(X1, X0, X0)
	VMOVQ(X0, Mem{Base: dst})
}

// quantize is the inner loop of QuantizeLinear.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT|NOFRAME, "func(dst *uint8, src *float32, n int, scale, low, high float32, zero int32)")
	Doc("quantizeAVX2 writes zero + x/scale, where x/scale is kept in [low, high]; n is a multiple of 8.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VBROADCASTSS(NewParamAddr("scale", 24), Y12)
	VBROADCASTSS(NewParamAddr("low", 28), Y13)
	VBROADCASTSS(NewParamAddr("high", 32), Y14)
	VBROADCASTSS(NewParamAddr("zero", 36), Y15)
	Label("eight")
	VMOVUPS(Mem{Base: src}, Y0)
	VDIVPS(Y12, Y0, Y0)
	VMAXPS(Y13, Y0, Y0) // turns NaN into low
	VMINPS(Y14, Y0, Y0)
	toBytes(dst)
	ADDQ(Imm(32), src)
	ADDQ(Imm(8), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// requantize converts the sums of a product of integers to bytes.
func requantize() {
	TEXT("requantizeAVX2", NOSPLIT|NOFRAME, "func(dst *uint8, src *int32, n int, scale, low, high float32, zero, bias int32)")
	Doc("requantizeAVX2 writes zero + (x + bias)·scale, where the product is kept in [low, high]; n is a multiple of 8.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VBROADCASTSS(NewParamAddr("scale", 24), Y12)
	VBROADCASTSS(NewParamAddr("low", 28), Y13)
	VBROADCASTSS(NewParamAddr("high", 32), Y14)
	VBROADCASTSS(NewParamAddr("zero", 36), Y15)
	VBROADCASTSS(NewParamAddr("bias", 40), Y11)
	Label("eight")
	VPADDD(Mem{Base: src}, Y11, Y0)
	VCVTDQ2PS(Y0, Y0)
	VMULPS(Y12, Y0, Y0)
	VMAXPS(Y13, Y0, Y0)
	VMINPS(Y14, Y0, Y0)
	toBytes(dst)
	ADDQ(Imm(32), src)
	ADDQ(Imm(8), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// requantizeColumns is requantize for rows of numbers that have their own scales and
// biases. It takes 8 numbers at a time, the last of which may overlap those before.
func requantizeColumns() {
	TEXT("requantizeColumnsAVX2", NOSPLIT|NOFRAME, "func(dst *uint8, src, biases *int32, scales *float32, n, rows, dstStep, srcStep int, low, high float32, zero int32)")
	Doc("requantizeColumnsAVX2 writes zero + (x + bias)·scale, where the product is kept in [low, high], for rows of n numbers, 8 or more; the steps are in bytes.")
	dst, src, biases, scales, n, rows, x, left := RDI, RSI, RDX, RBX, RCX, R8, RAX, R9
	dstStep, srcStep, to := R10, R11, R12
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("biases"), biases)
	Load(Param("scales"), scales)
	Load(Param("n"), n)
	Load(Param("rows"), rows)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	VBROADCASTSS(NewParamAddr("low", 64), Y13)
	VBROADCASTSS(NewParamAddr("high", 68), Y14)
	VBROADCASTSS(NewParamAddr("zero", 72), Y15)
	VPCMPEQD(Y12, Y12, Y12)
	VPSRLD(Imm(24), Y12, Y12) // the low byte of each number
	round := func(disp int, y VecPhysical) {
		VMOVDQU(Mem{Base: src, Index: x, Scale: 4, Disp: disp}, y)
		VPADDD(Mem{Base: biases, Index: x, Scale: 4, Disp: disp}, y, y)
		VCVTDQ2PS(y, y)
		VMULPS(Mem{Base: scales, Index: x, Scale: 4, Disp: disp}, y, y)
		VMAXPS(Y13, y, y)
		VMINPS(Y14, y, y)
	}
	Label("row")
	XORQ(x, x)
	MOVQ(n, left)
	Label("sixteen")
	CMPQ(left, Imm(16))
	JLT(LabelRef("eight"))
	for i, y := range []VecPhysical{Y0, Y1} {
		round(32*i, y)
		VCVTPS2DQ(y, y)
		VPADDD(Y15, y, y)
		VPAND(Y12, y, y)
	}
	VPACKUSDW(Y1, Y0, Y0)
	VPERMQ(Imm(0xd8), Y0, Y0)
	VEXTRACTI128(Imm(1), Y0, X1)
	VPACKUSWB(X1, X0, X0)
	VMOVDQU(X0, Mem{Base: dst, Index: x, Scale: 1})
	ADDQ(Imm(16), x)
	SUBQ(Imm(16), left)
	JMP(LabelRef("sixteen"))
	Label("eight")
	TESTQ(left, left)
	JZ(LabelRef("next"))
	CMPQ(left, Imm(8))
	JGE(LabelRef("whole"))
	LEAQ(Mem{Base: n, Disp: -8}, x)
	MOVQ(U32(8), left)
	Label("whole")
	round(0, Y0)
	LEAQ(Mem{Base: dst, Index: x, Scale: 1}, to)
	toBytes(to)
	ADDQ(Imm(8), x)
	SUBQ(Imm(8), left)
	JMP(LabelRef("eight"))
	Label("next")
	ADDQ(dstStep, dst)
	ADDQ(srcStep, src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// dequantize is the inner loop of DequantizeLinear.
func dequantize() {
	TEXT("dequantizeAVX2", NOSPLIT|NOFRAME, "func(dst *float32, src *uint8, n int, scale float32, zero int32, flip uint8)")
	Doc("dequantizeAVX2 writes (x - zero)·scale; n is a multiple of 8.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	VBROADCASTSS(NewParamAddr("scale", 24), Y13)
	VBROADCASTSS(NewParamAddr("zero", 28), Y14)
	VPBROADCASTB(NewParamAddr("flip", 32), X15)
	Label("eight")
	VMOVQ(Mem{Base: src}, X0)
	VPXOR(X15, X0, X0)
	VPMOVZXBD(X0, Y0)
	VPSUBD(Y14, Y0, Y0)
	VCVTDQ2PS(Y0, Y0)
	VMULPS(Y13, Y0, Y0)
	VMOVUPS(Y0, Mem{Base: dst})
	ADDQ(Imm(8), src)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}
