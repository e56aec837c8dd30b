package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.shifting. shift_amd64.go checks them at compile time.
const (
	offShiftDst     = 0
	offShiftSrc     = 8
	offShiftTap     = 16
	offShiftFirst   = 24
	offShiftEnd     = 32
	offShiftEvens   = 40
	offShiftSecond  = 48
	offShiftCount   = 56
	offShiftDstStep = 64
	offShiftSrcStep = 72
	offShiftAhead   = 80
	shiftSize       = 16 // of a tap: its offset in bytes, and a bit for each lane that is read
)

// shift packs one or two vectors of columns of an image, depth by depth: the taps of one
// channel follow each other, and then those of the next. A tap reads what lies at its
// offset from the columns, except for the lanes outside of the image. With stride 2, the
// columns are every other element.
func shift(stride, vectors int) {
	name := fmt.Sprintf("shift%dx%dAVX512", stride, vectors)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s packs %d columns that lie %d apart.", name, 16*vectors, stride))
	p, dst, src, tap, first, end, second, count := RDI, R8, R9, R10, R11, R12, R13, RSI
	dstStep, srcStep, at, ahead, evens := RBX, RDX, RAX, RCX, Z31
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }
	get(offShiftDst, dst)
	get(offShiftSrc, src)
	get(offShiftTap, tap)
	get(offShiftFirst, first)
	get(offShiftEnd, end)
	get(offShiftSecond, second)
	get(offShiftCount, count)
	get(offShiftDstStep, dstStep)
	get(offShiftSrcStep, srcStep)
	get(offShiftAhead, ahead)
	if stride == 2 {
		get(offShiftEvens, at)
		VMOVUPS(Mem{Base: at}, evens)
	}
	masks := []OpmaskPhysical{K1, K2, K3, K4}
	loaded := []VecPhysical{Z0, Z1, Z2, Z3}
	Label("depth")
	MOVQ(Mem{Base: tap}, at)
	ADDQ(src, at)
	if stride == 1 {
		// What is read next lies in too many channels for the processor to foresee. Most
		// images with stride 2 have three channels.
		PREFETCHT0(Mem{Base: at, Index: ahead, Scale: 1})
		PREFETCHT0(Mem{Base: at, Index: ahead, Scale: 1, Disp: 64})
	}
	for v := range vectors {
		for part := range stride {
			i := v*stride + part
			m := Mem{Base: at, Disp: 64 * part}
			if v == 1 {
				m.Index, m.Scale = second, 1
			}
			KMOVW(Mem{Base: tap, Disp: 8 + 2*i}, masks[i])
			VMOVUPS_Z(m, masks[i], loaded[i])
		}
		x := loaded[v*stride]
		if stride == 2 {
			VPERMT2PS(loaded[v*stride+1], evens, x)
		}
		VMOVUPS(x, Mem{Base: dst, Disp: 64 * v})
	}
	ADDQ(dstStep, dst)
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
