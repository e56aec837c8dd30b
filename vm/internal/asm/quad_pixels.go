package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.quadWeighing and gemm.quadSegment, which quad_pixels_amd64.go
// checks at compile time, and those in a block of channels.
const (
	offWeighSegments = 0
	offWeighCount    = 8
	offWeighBlock    = 16
	offWeighBlocks   = 24
	offWeighChannel  = 32
	offWeighQuads    = 40
	offWeighStep     = 48
	offWeighDstStep  = 56
	offWeighSize     = 64
	offWeighWords    = 72
	offWeighFlip     = 74
	offWeighOutFlip  = 75

	offQuadSegmentDst    = 0
	offQuadSegmentSecond = 8
	offQuadSegmentStep   = 16
	offQuadSegmentTaps   = 24
	offQuadSegmentPixels = 32
	quadSegmentBytes     = 40

	offQuadBlockScales  = 256
	offQuadBlockWeights = 512
)

// weighQuads computes a depthwise convolution of bytes whose channels are neighbours in memory: of
// 64 channels of a pixel, or of 32 of two pixels. Four rows of the image are interleaved to quads,
// which meet four weights of a column of the kernel; of two rows of the output, the second meets the
// same quads with weights one row further. The halves of 128 bits are interleaved, and packed at
// last, for themselves.
func weighQuads(name string, rows int, two bool) {
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	channels := "64 channels of each pixel"
	if two {
		channels = "32 channels of each two pixels"
	}
	Doc(name + " writes the weighted sums of quads of pixels, as bytes: " + channels + ".")
	args, block, channel, at, to, second, pixels := RDI, RSI, R10, R9, R12, R13, R8
	taps, count, one, other, segment, segments, weights := RDX, RCX, RAX, RBX, R11, R14, R15
	words, flip, outFlip := Z29, Z30, Z31
	x, y := []VecPhysical{Z8, Z9, Z10, Z11}, []VecPhysical{Z12, Z13, Z14, Z15}
	acc := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7}[:4*rows]
	Load(Param("p"), args)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: args, Disp: off}, r) }
	get(offWeighBlock, block)
	get(offWeighChannel, channel)
	VPBROADCASTW(Mem{Base: args, Disp: offWeighWords}, words)
	VPBROADCASTB(Mem{Base: args, Disp: offWeighFlip}, flip)
	VPBROADCASTB(Mem{Base: args, Disp: offWeighOutFlip}, outFlip)

	Label("block")
	get(offWeighSegments, segment)
	get(offWeighCount, segments)
	Label("segment")
	MOVQ(channel, at)
	MOVQ(Mem{Base: segment, Disp: offQuadSegmentPixels}, pixels)
	MOVQ(Mem{Base: segment, Disp: offQuadSegmentDst}, to)
	ADDQ(channel, to)
	if rows == 2 {
		MOVQ(Mem{Base: segment, Disp: offQuadSegmentSecond}, second)
		ADDQ(channel, second)
	}
	Label("pixel")
	MOVQ(Mem{Base: segment, Disp: offQuadSegmentTaps}, taps)
	for i, a := range acc {
		VMOVDQU64(Mem{Base: block, Disp: 64 * (i % 4)}, a)
	}
	LEAQ(Mem{Base: block, Disp: offQuadBlockWeights}, weights)
	if two {
		// The second pixel is the first one if there is no other.
		MOVQ(at, other)
		ADDQ(Mem{Base: args, Disp: offWeighStep}, other)
		CMPQ(pixels, Imm(2))
		CMOVQLT(at, other)
	}
	get(offWeighQuads, count)
	Label("quad")
	for i, r := range x {
		MOVQ(Mem{Base: taps, Disp: 8 * i}, one)
		if two {
			VMOVDQU(Mem{Base: one, Index: at, Scale: 1}, r.AsY())
			VINSERTI64X4(Imm(1), Mem{Base: one, Index: other, Scale: 1}, r, r)
			VPXORQ(flip, r, r)
		} else {
			VPXORQ(Mem{Base: one, Index: at, Scale: 1}, flip, r)
		}
	}
	VPUNPCKLBW(x[1], x[0], y[0])
	VPUNPCKHBW(x[1], x[0], y[1])
	VPUNPCKLBW(x[3], x[2], y[2])
	VPUNPCKHBW(x[3], x[2], y[3])
	VPUNPCKLWD(y[2], y[0], x[0])
	VPUNPCKHWD(y[2], y[0], x[1])
	VPUNPCKLWD(y[3], y[1], x[2])
	VPUNPCKHWD(y[3], y[1], x[3])
	for i, a := range acc {
		VPDPBUSD(Mem{Base: weights, Disp: 64 * i}, x[i%4], a)
	}
	ADDQ(Imm(32), taps)
	ADDQ(U32(uint32(64*4*rows)), weights)
	DECQ(count)
	JNZ(LabelRef("quad"))

	for i, a := range acc {
		VCVTDQ2PS(a, a)
		VMULPS(Mem{Base: block, Disp: offQuadBlockScales + 64*(i%4)}, a, a)
		VCVTPS2DQ(a, a)
	}
	for r := range rows {
		v, dst := acc[4*r:], []GPPhysical{to, second}[r]
		VPACKSSDW(v[1], v[0], v[0])
		VPACKSSDW(v[3], v[2], v[2])
		VPADDSW(words, v[0], v[0])
		VPADDSW(words, v[2], v[2])
		VPACKUSWB(v[2], v[0], v[0])
		VPXORQ(outFlip, v[0], v[0])
		step := Mem{Base: args, Disp: offWeighDstStep}
		if r == 1 {
			step = Mem{Base: segment, Disp: offQuadSegmentStep}
		}
		if !two {
			VMOVDQU64(v[0], Mem{Base: dst})
			ADDQ(step, dst)
			continue
		}
		MOVQ(step, one)
		MOVQ(one, other)
		CMPQ(pixels, Imm(2))
		CMOVQLT(count, other) // 0
		VMOVDQU(v[0].AsY(), Mem{Base: dst})
		VEXTRACTI64X4(Imm(1), v[0], x[0].AsY())
		VMOVDQU(x[0].AsY(), Mem{Base: dst, Index: other, Scale: 1})
		LEAQ(Mem{Base: dst, Index: one, Scale: 2}, dst)
	}
	if two {
		get(offWeighStep, one)
		LEAQ(Mem{Base: at, Index: one, Scale: 2}, at)
		SUBQ(Imm(2), pixels)
		JG(LabelRef("pixel"))
	} else {
		ADDQ(Mem{Base: args, Disp: offWeighStep}, at)
		DECQ(pixels)
		JNZ(LabelRef("pixel"))
	}
	ADDQ(Imm(quadSegmentBytes), segment)
	DECQ(segments)
	JNZ(LabelRef("segment"))

	ADDQ(Mem{Base: args, Disp: offWeighSize}, block)
	ADDQ(Imm(64), channel)
	DECQ(Mem{Base: args, Disp: offWeighBlocks})
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
