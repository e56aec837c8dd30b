package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// add joins x to the results in acc with AVX2, as more does. Lanes outside of the image must
// hold the result of no elements. t is overwritten.
func (j join) add(x Op, acc, t VecPhysical) {
	if j.sum {
		VADDPS(x, acc, acc)
		return
	}
	VCMPPS(Imm(3), acc, acc, t) // is NaN
	VMAXPS(x, acc, x.(VecPhysical))
	VBLENDVPS(t, acc, x.(VecPhysical), acc)
}

// rowsAVX2 is rows with AVX2, for several results: srcNext bytes after the rows of one begin
// those of the next, which is written dstNext bytes after it.
func (j join) rowsAVX2() {
	name := j.name + "RowsAVX2"
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *byte, off int, masks *uint16, vectors, count, step, results, dstNext, srcNext int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s of the columns of count rows, which are step bytes apart.", name, j.doc))
	dst, src, masks, vectors, count, step, at, left := RDI, RSI, R8, R9, R10, R11, RAX, RCX
	firstDst, firstSrc, results := R12, R13, RBX
	Load(Param("dst"), firstDst)
	Load(Param("src"), firstSrc)
	Load(Param("off"), at)
	ADDQ(at, firstSrc)
	Load(Param("count"), count)
	Load(Param("results"), results)
	Load(Param("step"), step)
	accs, lanes, shifts := [2]VecPhysical{Y0, Y1}, [2]VecPhysical{Y2, Y3}, [2]VecPhysical{Y4, Y5}
	none := Y6
	laneShifts(shifts)
	bits(math.Float32bits(j.none), none)
	Label("result")
	MOVQ(firstDst, dst)
	MOVQ(firstSrc, src)
	Load(Param("masks"), masks)
	Load(Param("vectors"), vectors)
	Label("vector")
	PREFETCHT0(Mem{Base: src, Disp: ahead})
	PREFETCHT0(Mem{Base: src, Index: step, Scale: 1, Disp: ahead})
	for _, acc := range accs {
		VMOVAPS(none, acc)
	}
	MOVQ(src, at)
	MOVQ(count, left)
	CMPW(Mem{Base: masks}, Imm(0xffff))
	JNE(LabelRef("border"))
	Label("row")
	for i, acc := range accs {
		VMOVUPS(Mem{Base: at, Disp: 32 * i}, Y7)
		j.add(Y7, acc, Y8)
	}
	ADDQ(step, at)
	DECQ(left)
	JNZ(LabelRef("row"))
	Label("store")
	for i, acc := range accs {
		VMOVUPS(acc, Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	ADDQ(Imm(2), masks)
	DECQ(vectors)
	JNZ(LabelRef("vector"))
	Load(Param("dstNext"), at)
	ADDQ(at, firstDst)
	Load(Param("srcNext"), at)
	ADDQ(at, firstSrc)
	DECQ(results)
	JNZ(LabelRef("result"))
	VZEROUPPER()
	RET()
	Label("border")
	lanesOf(Mem{Base: masks}, shifts, lanes)
	Label("borderRow")
	for i, acc := range accs {
		VMASKMOVPS(Mem{Base: at, Disp: 32 * i}, lanes[i], Y7)
		if !j.sum {
			VBLENDVPS(lanes[i], Y7, none, Y7)
		}
		j.add(Y7, acc, Y8)
	}
	ADDQ(step, at)
	DECQ(left)
	JNZ(LabelRef("borderRow"))
	JMP(LabelRef("store"))
}

// alongAVX2 is along with AVX2, for several rows.
func (j join) alongAVX2(stride int) {
	name := fmt.Sprintf("%sAlong%dAVX2", j.name, stride)
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *byte, vectors, taps, step int, last uint64, rows, dstNext, srcNext int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s of taps that are step bytes apart, with stride %d.", name, j.doc, stride))
	dst, src, vectors, taps, step, at, left := RDI, RSI, R9, R10, R11, RAX, RCX
	firstDst, firstSrc, rows := R12, R13, RBX
	Load(Param("dst"), firstDst)
	Load(Param("src"), firstSrc)
	Load(Param("taps"), taps)
	Load(Param("step"), step)
	Load(Param("rows"), rows)
	accs, lanes, shifts := [2]VecPhysical{Y0, Y1}, [2]VecPhysical{Y2, Y3}, [2]VecPhysical{Y4, Y5}
	none := Y6
	bits(math.Float32bits(j.none), none)
	Label("row")
	MOVQ(firstDst, dst)
	MOVQ(firstSrc, src)
	Load(Param("vectors"), vectors)
	Label("vector")
	for _, acc := range accs {
		VMOVAPS(none, acc)
	}
	MOVQ(src, at)
	MOVQ(taps, left)
	Label("tap")
	for i, acc := range accs {
		VMOVUPS(Mem{Base: at, Disp: 32 * stride * i}, Y7)
		if stride == 2 {
			VMOVUPS(Mem{Base: at, Disp: 64*i + 32}, Y8)
			everyOther(Y8, Y7)
		}
		j.add(Y7, acc, Y8)
	}
	ADDQ(step, at)
	DECQ(left)
	JNZ(LabelRef("tap"))
	if stride == 2 {
		for _, acc := range accs {
			inOrder(acc)
		}
	}
	DECQ(vectors)
	JZ(LabelRef("last"))
	Label("whole")
	for i, acc := range accs {
		VMOVUPS(acc, Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(Imm(uint64(64*stride)), src)
	ADDQ(Imm(64), dst)
	TESTQ(vectors, vectors)
	JNZ(LabelRef("vector"))
	Label("next")
	Load(Param("dstNext"), at)
	ADDQ(at, firstDst)
	Load(Param("srcNext"), at)
	ADDQ(at, firstSrc)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
	// A store with a mask is slow.
	Label("last")
	Load(Param("last"), RDX)
	CMPQ(RDX, U32(0xffff))
	JEQ(LabelRef("whole"))
	laneShifts(shifts)
	VMOVD(EDX, X7)
	lanesOf(X7, shifts, lanes)
	for i, acc := range accs {
		VMASKMOVPS(acc, lanes[i], Mem{Base: dst, Disp: 32 * i})
	}
	JMP(LabelRef("next"))
}
