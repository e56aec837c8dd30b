package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ahead is the distance in bytes at which images and lists are prefetched.
const ahead = 4096

// join is how a pool joins the elements under a kernel.
type join struct {
	name, doc string
	none      float32 // of no elements
	sum       bool
}

var joins = []join{{"largest", "the largest element, NaN if one is NaN,", float32(math.Inf(-1)), false}, {"sum", "the sum", 0, true}}

// more joins x, of which the lanes of k count, to the results in acc. K7 is overwritten. For
// NaN, VMAXPS gives its second source operand, which is x; a lane of acc that is NaN stays.
func (j join) more(x Op, k OpmaskPhysical, acc VecPhysical) {
	if j.sum {
		VADDPS(x, acc, k, acc)
		return
	}
	VCMPPS(Imm(7), acc, acc, k, K7) // is a number
	VMAXPS(x, acc, K7, acc)
}

// rows joins rows of an image into one, which gets padding at both ends: the masks say for
// each vector of it which lanes lie in the image. It begins off bytes after src.
func (j join) rows() {
	name := j.name + "RowsAVX512"
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *byte, off int, masks *uint16, vectors, count, step int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s of the columns of count rows, which are step bytes apart.", name, j.doc))
	dst, src, masks, vectors, count, step, at, left := RDI, RSI, R8, R9, R10, R11, RAX, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("off"), at)
	ADDQ(at, src)
	Load(Param("masks"), masks)
	Load(Param("vectors"), vectors)
	Load(Param("count"), count)
	Load(Param("step"), step)
	bits512(math.Float32bits(j.none), Z1)
	Label("vector")
	// Without this, the rows of an image that is not in the second-level cache arrive four
	// times slower.
	PREFETCHT0(Mem{Base: src, Disp: ahead})
	PREFETCHT0(Mem{Base: src, Index: step, Scale: 1, Disp: ahead})
	KMOVW(Mem{Base: masks}, K1)
	VMOVAPS(Z1, Z0)
	MOVQ(src, at)
	MOVQ(count, left)
	Label("row")
	j.more(Mem{Base: at}, K1, Z0)
	ADDQ(step, at)
	DECQ(left)
	JNZ(LabelRef("row"))
	VMOVUPS(Z0, Mem{Base: dst})
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	ADDQ(Imm(2), masks)
	DECQ(vectors)
	JNZ(LabelRef("vector"))
	VZEROUPPER()
	RET()
}

// along joins taps along a row, which are step bytes apart. With stride 2, it takes every
// other element of two vectors. The last vector is stored with a mask.
func (j join) along(stride int) {
	name := fmt.Sprintf("%sAlong%dAVX512", j.name, stride)
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *byte, vectors, taps, step int, last uint64, evens *[16]int32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s of taps that are step bytes apart, with stride %d.", name, j.doc, stride))
	dst, src, vectors, taps, step, at, left := RDI, RSI, R9, R10, R11, RAX, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("vectors"), vectors)
	Load(Param("taps"), taps)
	Load(Param("step"), step)
	Load(Param("last"), RDX)
	KMOVW(EDX, K2)
	Load(Param("evens"), RDX)
	VMOVUPS(Mem{Base: RDX}, Z31)
	bits512(math.Float32bits(j.none), Z1)
	KXNORW(K1, K1, K1) // all lanes
	Label("vector")
	VMOVAPS(Z1, Z0)
	MOVQ(src, at)
	MOVQ(taps, left)
	Label("tap")
	if stride == 1 {
		j.more(Mem{Base: at}, K1, Z0)
	} else {
		VMOVUPS(Mem{Base: at}, Z2)
		VPERMT2PS(Mem{Base: at, Disp: 64}, Z31, Z2)
		j.more(Z2, K1, Z0)
	}
	ADDQ(step, at)
	DECQ(left)
	JNZ(LabelRef("tap"))
	DECQ(vectors)
	JZ(LabelRef("last"))
	VMOVUPS(Z0, Mem{Base: dst})
	ADDQ(Imm(uint64(64*stride)), src)
	ADDQ(Imm(64), dst)
	JMP(LabelRef("vector"))
	Label("last")
	VMOVUPS(Z0, K2, Mem{Base: dst})
	VZEROUPPER()
	RET()
}
