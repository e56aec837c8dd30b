package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.halving. divide_amd64.go checks them at compile time.
const (
	offHalfSrc      = 0
	offHalfEven     = 8
	offHalfOdd      = 16
	offHalfMasks    = 24 // two
	offHalfRows     = 40
	offHalfSrcStep  = 48
	offHalfDstStep  = 56
	offHalfBlocks   = 64
	offHalfEvenZero = 72
	offHalfOddZero  = 80
)

// halves copies the even elements of the rows of an image, and the odd ones, to rows of two
// planes. It takes sixteen elements at a time, and the last ones with masks. Behind each row
// of a plane it writes eight zeros.
func halves() {
	TEXT("halvesAVX2", NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc("halvesAVX2 copies the even and the odd elements of rows to two planes.")
	p, src, even, odd, rows, srcStep, dstStep := RDI, R8, R9, R10, R11, R12, R13
	at, blocks, evenZero, oddZero := RAX, RCX, RDX, RSI
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }
	get(offHalfSrc, src)
	get(offHalfEven, even)
	get(offHalfOdd, odd)
	get(offHalfRows, rows)
	get(offHalfSrcStep, srcStep)
	get(offHalfDstStep, dstStep)
	get(offHalfEvenZero, evenZero)
	get(offHalfOddZero, oddZero)
	masks, zero := [2]VecPhysical{Y4, Y5}, Y6
	for i, m := range masks {
		get(offHalfMasks+8*i, at)
		VMOVDQU(Mem{Base: at}, m)
	}
	VXORPS(zero, zero, zero)
	divide := func() { // Y0 and Y1 to the even elements in Y2, the odd ones in Y3
		VSHUFPS(Imm(0x88), Y1, Y0, Y2)
		VSHUFPS(Imm(0xdd), Y1, Y0, Y3)
		inOrder(Y2)
		inOrder(Y3)
		VMOVUPS(Y2, Mem{Base: even, Index: at, Scale: 1})
		VMOVUPS(Y3, Mem{Base: odd, Index: at, Scale: 1})
	}
	Label("row")
	XORQ(at, at)
	get(offHalfBlocks, blocks)
	TESTQ(blocks, blocks)
	JZ(LabelRef("last"))
	Label("block")
	VMOVUPS(Mem{Base: src, Index: at, Scale: 2}, Y0)
	VMOVUPS(Mem{Base: src, Index: at, Scale: 2, Disp: 32}, Y1)
	divide()
	ADDQ(Imm(32), at)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	Label("last")
	VMASKMOVPS(Mem{Base: src, Index: at, Scale: 2}, masks[0], Y0)
	VMASKMOVPS(Mem{Base: src, Index: at, Scale: 2, Disp: 32}, masks[1], Y1)
	divide()
	VMOVUPS(zero, Mem{Base: even, Index: evenZero, Scale: 1})
	VMOVUPS(zero, Mem{Base: odd, Index: oddZero, Scale: 1})
	ADDQ(srcStep, src)
	ADDQ(dstStep, even)
	ADDQ(dstStep, odd)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
