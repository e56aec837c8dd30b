package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.quadPlane. quad_planes_amd64.go checks them at compile
// time.
const (
	offQuadDst       = 0
	offQuadSrc       = 8
	offQuadFirst     = 16
	offQuadSecond    = 24
	offQuadStep      = 32
	offQuadRows      = 40
	offQuadChunks    = 48
	offQuadWidth     = 56
	offQuadMask      = 64
	offQuadRoom      = 72
	offQuadSums      = 80
	offQuadWeights   = 88
	offQuadTaps      = 96
	offQuadCount     = 104
	offQuadVectors   = 112
	offQuadOutRows   = 120
	offQuadOutChunks = 128
	offQuadOutWidth  = 136
	offQuadOutPitch  = 144
	offQuadOutMask   = 152
	offQuadOrders    = 160
	offQuadBias      = 168
	offQuadScale     = 172
	offQuadHigh      = 180
	offQuadZero      = 184
	offQuadPad       = 188
	offQuadFlip      = 189
	offQuadOutFlip   = 190
	orderOfBytes     = 64 // in the orders, behind that of quads
)

// quadPlanes computes a channel of gemm.QuadPlanes: it copies the image with its padding,
// computes vectors of 16 outputs across the rows of the copy, and copies the outputs
// without what lies between the rows. One permutation of bytes gives each output of a
// vector the four bytes under a quad of weights.
func quadPlanes(stride int) {
	name := fmt.Sprintf("quadPlane%dVBMI", stride)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s is the convolution of one channel of bytes with stride %d.", name, stride))
	p := RDI
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }

	// The image.
	src, first, second, step, rows, at, to, n := RSI, R8, R9, R10, R11, RAX, RBX, RCX
	chunks, width := R12, R13
	get(offQuadSrc, src)
	get(offQuadFirst, first)
	get(offQuadSecond, second)
	get(offQuadStep, step)
	get(offQuadRows, rows)
	get(offQuadChunks, chunks)
	get(offQuadWidth, width)
	KMOVQ(Mem{Base: p, Disp: offQuadMask}, K1)
	VPBROADCASTB(Mem{Base: p, Disp: offQuadPad}, Z0)
	VPBROADCASTB(Mem{Base: p, Disp: offQuadFlip}, Z1)
	Label("enter")
	MOVQ(src, at)
	MOVQ(first, to)
	MOVQ(chunks, n)
	TESTQ(n, n)
	JZ(LabelRef("enterlast"))
	Label("enterwhole")
	VPXORQ(Mem{Base: at}, Z1, Z2)
	VMOVDQU64(Z2, Mem{Base: to})
	ADDQ(Imm(64), at)
	ADDQ(Imm(64), to)
	DECQ(n)
	JNZ(LabelRef("enterwhole"))
	Label("enterlast")
	// What is written behind the row is padding, or belongs to rows that come later.
	VMOVDQA64(Z0, Z2)
	VMOVDQU8(Mem{Base: at}, K1, Z2)
	VPXORQ(Z1, Z2, Z2)
	VMOVDQU64(Z2, Mem{Base: to})
	ADDQ(width, src)
	ADDQ(step, first)
	XCHGQ(first, second)
	DECQ(rows)
	JNZ(LabelRef("enter"))

	// The sums.
	room, sums, weights, taps, count, vectors, tap := R8, R9, R10, R11, R12, R13, RCX
	get(offQuadRoom, room)
	get(offQuadSums, sums)
	get(offQuadWeights, weights)
	get(offQuadTaps, taps)
	get(offQuadCount, count)
	get(offQuadVectors, vectors)
	get(offQuadOrders, at)
	acc, read := []VecPhysical{Z0, Z1, Z2, Z3}, []VecPhysical{Z4, Z5, Z6, Z7}
	weight, quads := Z8, Z16
	VMOVDQU64(Mem{Base: at}, quads)
	e := loadQuadEnd(p, at)
	for i, size := range []int{4, 1} {
		here, next := fmt.Sprintf("by%d", size), "computed"
		if i == 0 {
			next = "by1"
		}
		Label(here)
		CMPQ(vectors, Imm(uint64(size)))
		JLT(LabelRef(next))
		for v := range size {
			VMOVDQA64(e.bias, acc[v])
		}
		XORQ(tap, tap)
		Label(here + "taps")
		MOVLQSX(Mem{Base: taps, Index: tap, Scale: 4}, at)
		ADDQ(room, at)
		VPBROADCASTD(Mem{Base: weights, Index: tap, Scale: 4}, weight)
		for v := range size {
			m := Mem{Base: at, Disp: 16 * stride * v}
			if stride == 1 { // a shorter vector crosses fewer lines of the cache
				VMOVDQU(m, read[v].AsY())
				VPERMB(read[v], quads, read[v])
			} else {
				VPERMB(m, quads, read[v])
			}
			VPDPBUSD(weight, read[v], acc[v])
		}
		INCQ(tap)
		CMPQ(tap, count)
		JLT(LabelRef(here + "taps"))
		e.round(acc[:size])
		if size == 4 {
			e.pack(acc)
			VMOVDQU64(acc[0], Mem{Base: sums})
		} else {
			e.pack([]VecPhysical{acc[0], acc[0], acc[0], acc[0]})
			VMOVDQU(acc[0].AsX(), Mem{Base: sums})
		}
		ADDQ(U32(uint32(16*stride*size)), room)
		ADDQ(U32(uint32(16*size)), sums)
		SUBQ(Imm(uint64(size)), vectors)
		JMP(LabelRef(here))
	}
	Label("computed")

	// The output.
	dst, from, pitch := RSI, R8, R10
	get(offQuadDst, dst)
	get(offQuadSums, from)
	get(offQuadOutPitch, pitch)
	get(offQuadOutRows, rows)
	get(offQuadOutChunks, chunks)
	get(offQuadOutWidth, width)
	KMOVQ(Mem{Base: p, Disp: offQuadOutMask}, K1)
	Label("leave")
	MOVQ(from, at)
	MOVQ(dst, to)
	MOVQ(chunks, n)
	TESTQ(n, n)
	JZ(LabelRef("leavelast"))
	Label("leavewhole")
	VMOVDQU64(Mem{Base: at}, Z0)
	VMOVDQU64(Z0, Mem{Base: to})
	ADDQ(Imm(64), at)
	ADDQ(Imm(64), to)
	DECQ(n)
	JNZ(LabelRef("leavewhole"))
	Label("leavelast")
	VMOVDQU64(Mem{Base: at}, Z0)
	VMOVDQU8(Z0, K1, Mem{Base: to})
	ADDQ(width, dst)
	ADDQ(pitch, from)
	DECQ(rows)
	JNZ(LabelRef("leave"))
	VZEROUPPER()
	RET()
}

// smallQuadPlane computes a channel of gemm.QuadPlanes whose image, with one byte of
// padding behind it, and whose output each fit into a vector: for each quad of weights,
// four permutations of bytes give 64 outputs what they read.
func smallQuadPlane() {
	TEXT("smallQuadPlaneVBMI", NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc("smallQuadPlaneVBMI is the convolution of one small channel of bytes.")
	p, dst, src, weights, orders, count, at := RDI, R8, R9, R10, R11, R12, RAX
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }
	get(offQuadDst, dst)
	get(offQuadSrc, src)
	get(offQuadWeights, weights)
	get(offQuadTaps, orders)
	get(offQuadCount, count)
	get(offQuadOrders, at)
	acc, read := []VecPhysical{Z0, Z1, Z2, Z3}, []VecPhysical{Z4, Z5, Z6, Z7}
	weight, image := Z8, Z16
	KMOVQ(Mem{Base: p, Disp: offQuadMask}, K1)
	VPBROADCASTB(Mem{Base: p, Disp: offQuadPad}, image)
	VMOVDQU8(Mem{Base: src}, K1, image)
	VPBROADCASTB(Mem{Base: p, Disp: offQuadFlip}, weight)
	VPXORQ(weight, image, image)
	e := loadQuadEnd(p, at)
	for _, s := range acc {
		VMOVDQA64(e.bias, s)
	}
	Label("taps")
	VPBROADCASTD(Mem{Base: weights}, weight)
	for v, x := range read {
		VMOVDQU64(Mem{Base: orders, Disp: 64 * v}, x)
		VPERMB(image, x, x)
		VPDPBUSD(weight, x, acc[v])
	}
	ADDQ(Imm(4), weights)
	ADDQ(U32(64*4), orders)
	DECQ(count)
	JNZ(LabelRef("taps"))
	e.round(acc)
	e.pack(acc)
	KMOVQ(Mem{Base: p, Disp: offQuadOutMask}, K1)
	VMOVDQU8(acc[0], K1, Mem{Base: dst})
	VZEROUPPER()
	RET()
}

// quadEnd holds what makes bytes of the sums of a channel.
type quadEnd struct{ order, bias, scale, high, zero, flip VecPhysical }

// loadQuadEnd reads it from the arguments at p, and the orders at another address.
func loadQuadEnd(p, orders GPPhysical) quadEnd {
	e := quadEnd{Z17, Z18, Z19, Z20, Z21, Z22}
	VMOVDQU64(Mem{Base: orders, Disp: orderOfBytes}, e.order)
	VBROADCASTSS(Mem{Base: p, Disp: offQuadBias}, e.bias)
	VBROADCASTSS(Mem{Base: p, Disp: offQuadScale}, e.scale)
	VBROADCASTSS(Mem{Base: p, Disp: offQuadHigh}, e.high)
	VPBROADCASTW(Mem{Base: p, Disp: offQuadZero}, e.zero)
	VPBROADCASTB(Mem{Base: p, Disp: offQuadOutFlip}, e.flip)
	return e
}

// round makes integers of the sums, as set.packBytes: pack keeps them in the range.
func (e quadEnd) round(sums []VecPhysical) {
	for _, s := range sums {
		VCVTDQ2PS(s, s)
		VMULPS(e.scale, s, s)
		VMINPS(s, e.high, s) // NaN stays
		VCVTPS2DQ(s, s)
	}
}

// pack makes the first of four vectors the bytes of all; they may be one.
func (e quadEnd) pack(v []VecPhysical) { packFour(v, e.zero, e.order, e.flip) }
