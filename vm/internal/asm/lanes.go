package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.gathering.
const (
	offDst     = 0
	offSrc     = 8
	offCount   = 16
	offDstStep = 24
	offSrcStep = 32
	offPieces  = 40 // four times an offset and the address of a mask
)

// gather copies 16 columns of an image, depth by depth. Each 8 columns come from two
// pieces; every lane belongs to one of them or to none.
func gather(stride int) {
	TEXT(fmt.Sprintf("gather%d", stride), NOSPLIT|NOFRAME, "func(p *byte)")
	Doc(fmt.Sprintf("gather%d copies 16 columns that lie %d apart.", stride, stride))
	args, dst, src, count, dstStep, srcStep := RDI, R8, R9, R10, R11, R12
	offsets := []GPPhysical{RAX, RBX, RCX, RDX}
	Load(Param("p"), args)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: args, Disp: off}, r) }
	get(offDst, dst)
	get(offSrc, src)
	get(offCount, count)
	get(offDstStep, dstStep)
	get(offSrcStep, srcStep)
	y := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
	masks, loaded := y[:4*stride], y[4*stride:]
	for i, off := range offsets {
		get(offPieces+16*i, off)
		get(offPieces+16*i+8, RSI)
		if stride == 1 {
			VMOVUPS(Mem{Base: RSI}, masks[i])
			continue
		}
		// Do not read the lanes between the columns: they may lie outside of the image.
		VPMOVZXDQ(Mem{Base: RSI}, masks[2*i])
		VPMOVZXDQ(Mem{Base: RSI, Disp: 16}, masks[2*i+1])
	}
	Label(fmt.Sprintf("loop%d", stride))
	for g := range 2 {
		v := loaded[4*g*(2-stride):]
		for piece := range 2 {
			for part := range stride {
				i := 2*g + piece
				VMASKMOVPS(Mem{Base: src, Index: offsets[i], Scale: 1, Disp: 32 * part}, masks[stride*i+part], v[piece*stride+part])
			}
		}
		if stride == 1 {
			VORPS(v[1], v[0], v[0])
		} else {
			VORPS(v[2], v[0], v[0])
			VORPS(v[3], v[1], v[1])
			VSHUFPS(Imm(0x88), v[1], v[0], v[0])
			VPERMPD(Imm(0xd8), v[0], v[0])
		}
		VMOVUPS(v[0], Mem{Base: dst, Disp: 32 * g})
	}
	ADDQ(srcStep, src)
	ADDQ(dstStep, dst)
	DECQ(count)
	JNZ(LabelRef(fmt.Sprintf("loop%d", stride)))
	VZEROUPPER()
	RET()
}
