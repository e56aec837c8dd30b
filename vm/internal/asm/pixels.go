package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.weighing and gemm.segment, which pixels_amd64.go checks
// at compile time, and those in a block of 32 channels.
const (
	offSegments     = 0
	offSegmentCount = 8
	offPixelBlock   = 16
	offPairs        = 24
	offChannels     = 32
	offPixelStep    = 40
	offPixelDstStep = 48
	offPixelLow     = 56
	offPixelHigh    = 60
	offPixelZero    = 64

	offSegmentDst    = 0
	offSegmentTaps   = 8
	offSegmentPixels = 16
	segmentBytes     = 24

	offBlockScales  = 128
	offBlockWeights = 256
)

// weighPixels computes a depthwise convolution of bytes whose channels are neighbours in
// memory, 32 channels at a time: a block. The last block may overlap the one before. Two
// taps are interleaved, so that one multiplication of pairs of int16 serves both. The
// halves of a vector are interleaved and, at last, packed separately, which makes the
// order of the channels in a block that of gemm.blockChannel.
func weighPixels(name string, signed bool) {
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(name + " writes the weighted sums of taps of pixels, as bytes; there are 32 channels or more.")
	args, block, channel, at, to, pixels := RDI, RSI, R10, R9, R12, R8
	weights, taps, count, first, second, segment, segments := R13, RDX, RCX, RAX, RBX, R11, R14
	zero, flip, low, high, point, mask := Y10, Y11, Y12, Y13, Y14, Y15
	sums := []VecPhysical{Y0, Y1, Y2, Y3}
	Load(Param("p"), args)
	load(offPixelBlock, block)
	VBROADCASTSS(Mem{Base: args, Disp: offPixelLow}, low)
	VBROADCASTSS(Mem{Base: args, Disp: offPixelHigh}, high)
	VBROADCASTSS(Mem{Base: args, Disp: offPixelZero}, point)
	VPXOR(zero, zero, zero)
	VPCMPEQD(mask, mask, mask)
	if signed {
		VPSLLW(Imm(15), mask, flip)
		VPACKSSWB(flip, flip, flip) // 0x80 in each byte
	}
	VPSRLD(Imm(24), mask, mask) // the low byte of each number
	XORQ(channel, channel)

	Label("block")
	load(offSegments, segment)
	load(offSegmentCount, segments)
	Label("segment")
	MOVQ(Mem{Base: segment, Disp: offSegmentPixels}, pixels)
	MOVQ(Mem{Base: segment, Disp: offSegmentTaps}, taps)
	MOVQ(channel, at)
	MOVQ(Mem{Base: segment, Disp: offSegmentDst}, to)
	ADDQ(channel, to)
	Label("pixel")
	for i, s := range sums {
		VMOVDQU(Mem{Base: block, Disp: 32 * i}, s)
	}
	pair := func(tapDisp int, weights GPPhysical, weightDisp int) {
		MOVQ(Mem{Base: taps, Disp: tapDisp}, first)
		MOVQ(Mem{Base: taps, Disp: tapDisp + 8}, second)
		VMOVDQU(Mem{Base: first, Index: at, Scale: 1}, Y4)
		VMOVDQU(Mem{Base: second, Index: at, Scale: 1}, Y5)
		if signed {
			VPXOR(flip, Y4, Y4)
			VPXOR(flip, Y5, Y5)
		}
		VPUNPCKLBW(Y5, Y4, Y6)
		VPUNPCKHBW(Y5, Y4, Y7)
		VPUNPCKLBW(zero, Y6, Y4)
		VPUNPCKHBW(zero, Y6, Y5)
		VPUNPCKLBW(zero, Y7, Y8)
		VPUNPCKHBW(zero, Y7, Y9)
		for i, x := range []VecPhysical{Y4, Y5, Y8, Y9} {
			VPMADDWD(Mem{Base: weights, Disp: weightDisp + 32*i}, x, x)
			VPADDD(x, sums[i], sums[i])
		}
	}
	// A kernel of 3 x 3 has five pairs.
	CMPQ(Mem{Base: args, Disp: offPairs}, Imm(5))
	JNE(LabelRef("any"))
	for i := range 5 {
		pair(16*i, block, offBlockWeights+128*i)
	}
	JMP(LabelRef("round"))
	Label("any")
	LEAQ(Mem{Base: block, Disp: offBlockWeights}, weights)
	load(offPairs, count)
	Label("pair")
	pair(0, weights, 0)
	ADDQ(Imm(128), weights)
	ADDQ(Imm(16), taps)
	DECQ(count)
	JNZ(LabelRef("pair"))
	MOVQ(Mem{Base: segment, Disp: offSegmentTaps}, taps)
	Label("round")
	for i, s := range sums {
		VCVTDQ2PS(s, s)
		VMULPS(Mem{Base: block, Disp: offBlockScales + 32*i}, s, s)
		VMAXPS(low, s, s) // turns NaN into low
		VMINPS(high, s, s)
		VCVTPS2DQ(s, s)
		VPADDD(point, s, s)
		VPAND(mask, s, s)
	}
	VPACKUSDW(Y1, Y0, Y0)
	VPACKUSDW(Y3, Y2, Y2)
	VPACKUSWB(Y2, Y0, Y0)
	VMOVDQU(Y0, Mem{Base: to})
	ADDQ(Mem{Base: args, Disp: offPixelStep}, at)
	ADDQ(Mem{Base: args, Disp: offPixelDstStep}, to)
	DECQ(pixels)
	JNZ(LabelRef("pixel"))
	ADDQ(Imm(segmentBytes), segment)
	DECQ(segments)
	JNZ(LabelRef("segment"))

	load(offPairs, count)
	SHLQ(Imm(7), count)
	LEAQ(Mem{Base: block, Index: count, Scale: 1, Disp: offBlockWeights}, block)
	ADDQ(Imm(32), channel)
	load(offChannels, count)
	SUBQ(channel, count) // left to do
	JLE(LabelRef("end"))
	CMPQ(count, Imm(32))
	JGE(LabelRef("block"))
	LEAQ(Mem{Base: channel, Index: count, Scale: 1, Disp: -32}, channel)
	JMP(LabelRef("block"))
	Label("end")
	VZEROUPPER()
	RET()
}
