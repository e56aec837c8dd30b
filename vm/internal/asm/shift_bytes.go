package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.shiftingBytes. shift_bytes_amd64.go checks them at
// compile time.
const (
	offShiftBytesDst     = 0
	offShiftBytesSrc     = 8
	offShiftBytesTap     = 16
	offShiftBytesFirst   = 24
	offShiftBytesEnd     = 32
	offShiftBytesCount   = 40
	offShiftBytesSrcStep = 48
	offShiftBytesPad     = 56
)

// shiftBytes is shift for 16 columns of bytes. Lanes outside of the image hold the zero
// point.
func shiftBytes(stride int) {
	name := fmt.Sprintf("shiftBytes%dAVX512", stride)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s packs 16 columns of bytes that lie %d apart.", name, stride))
	p, dst, src, tap, first, end, count, srcStep, at := RDI, R8, R9, R10, R11, R12, RSI, RDX, RAX
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }
	get(offShiftBytesDst, dst)
	get(offShiftBytesSrc, src)
	get(offShiftBytesTap, tap)
	get(offShiftBytesFirst, first)
	get(offShiftBytesEnd, end)
	get(offShiftBytesCount, count)
	get(offShiftBytesSrcStep, srcStep)
	VPBROADCASTB(Mem{Base: p, Disp: offShiftBytesPad}, Y1)
	Label("depth")
	MOVQ(Mem{Base: tap}, at)
	ADDQ(src, at)
	KMOVD(Mem{Base: tap, Disp: 8}, K1)
	VMOVDQA(Y1, Y0)
	if stride == 1 {
		VMOVDQU8(Mem{Base: at}, K1, X0)
	} else {
		VMOVDQU8(Mem{Base: at}, K1, Y0)
		VPMOVWB(Y0, X0) // the even bytes
	}
	VMOVDQU(X0, Mem{Base: dst})
	ADDQ(Imm(16), dst)
	ADDQ(Imm(shiftSize), tap)
	CMPQ(tap, end)
	JNE(LabelRef("next"))
	MOVQ(first, tap)
	ADDQ(srcStep, src)
	Label("next")
	DECQ(count)
	JNZ(LabelRef("depth"))
	VZEROUPPER()
	RET()
}
