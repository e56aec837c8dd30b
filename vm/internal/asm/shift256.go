package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// shiftAVX2 is shift with AVX2.
func shiftAVX2(stride, vectors int) {
	name := fmt.Sprintf("shift%dx%dAVX2", stride, vectors)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s packs %d columns that lie %d apart.", name, 16*vectors, stride))
	p, dst, src, tap, first, end, second, count := RDI, R8, R9, R10, R11, R12, R13, RSI
	dstStep, srcStep, at, ahead := RBX, RDX, RAX, RCX
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
	shifts, lanes := [2]VecPhysical{Y0, Y1}, [2]VecPhysical{Y2, Y3}
	loaded := []VecPhysical{Y4, Y5, Y6, Y7}
	laneShifts(shifts)
	Label("depth")
	MOVQ(Mem{Base: tap}, at)
	ADDQ(src, at)
	if stride == 1 {
		PREFETCHT0(Mem{Base: at, Index: ahead, Scale: 1})
		PREFETCHT0(Mem{Base: at, Index: ahead, Scale: 1, Disp: 64})
	}
	for v := range vectors {
		for part := range stride { // sixteen lanes of the image
			lanesOf(Mem{Base: tap, Disp: 8 + 2*(v*stride+part)}, shifts, lanes)
			for half, mask := range lanes {
				m := Mem{Base: at, Disp: 64*part + 32*half}
				if v == 1 {
					m.Index, m.Scale = second, 1
				}
				VMASKMOVPS(m, mask, loaded[2*part+half])
			}
		}
		for half := range 2 {
			x := loaded[half]
			if stride == 2 {
				x = loaded[2*half]
				everyOther(loaded[2*half+1], x)
				inOrder(x)
			}
			VMOVUPS(x, Mem{Base: dst, Disp: 64*v + 32*half})
		}
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
