package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// directAVX2 is direct of reals with AVX2: the same sums by the same table, with eight lanes
// at a time. Stores with a mask are slow, so it has one only where the table leaves out some
// of eight outputs.
func directAVX2(stride int) {
	name := fmt.Sprintf("weigh%dAVX2", stride)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s with stride %d.", name, slides[weighs].doc, stride))
	p, dst, src, weights, taps, masks, groups, vectors := RDI, R8, R9, R10, R11, R12, R13, R14
	tap, at, a, flags := RAX, RBX, RCX, RSI
	Load(Param("p"), p)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: p, Disp: off}, r) }
	get(offSlidDst, dst)
	get(offSlidSrc, src)
	get(offSlidWeights, weights)
	get(offSlidTaps, taps)
	get(offSlidMasks, masks)
	get(offSlidGroups, groups)
	get(offSlidVectors, vectors)
	get(offSlidClamp, flags)
	sums := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	weight, shifts, lanes, x := Y8, [2]VecPhysical{Y9, Y10}, [2]VecPhysical{Y11, Y12}, [2]VecPhysical{Y13, Y14}
	low, high, zero := Y8, Y11, Y12 // once the sums are complete
	laneShifts(shifts)
	var rare []func() // stores of part of a vector
	for _, n := range []int{4, 2, 1} {
		here, next := fmt.Sprintf("by%d", n), "end"
		if n > 1 {
			next = fmt.Sprintf("by%d", n/2)
		}
		Label(here)
		CMPQ(vectors, Imm(uint64(n)))
		JLT(LabelRef(next))
		VBROADCASTSS(Mem{Base: p, Disp: offSlidBias}, sums[0])
		for _, s := range sums[1 : 2*n] {
			VMOVAPS(sums[0], s)
		}
		if stride == 1 {
			for line := 0; line < 64*n; line += 64 {
				PREFETCHT0(Mem{Base: src, Disp: ahead + line})
			}
		}
		XORQ(tap, tap)
		Label(here + "taps")
		MOVLQSX(Mem{Base: taps, Index: tap, Scale: 4}, at)
		ADDQ(src, at)
		VBROADCASTSS(Mem{Base: weights, Index: tap, Scale: 4}, weight)
		for v := range 2 * n { // eight outputs each
			if stride == 1 {
				if v%2 == 0 {
					lanesOf(Mem{Base: masks, Disp: v}, shifts, lanes)
				}
				VMASKMOVPS(Mem{Base: at, Disp: 32 * v}, lanes[v%2], x[0])
			} else {
				lanesOf(Mem{Base: masks, Disp: 2 * v}, shifts, lanes)
				MOVLQSX(Mem{Base: groups, Disp: 16*(v/2) + 4*(v%2)}, a)
				for half, mask := range lanes {
					VMASKMOVPS(Mem{Base: at, Index: a, Scale: 1, Disp: 32 * half}, mask, x[half])
				}
				everyOther(x[1], x[0])
			}
			VFMADD231PS(x[0], weight, sums[v])
		}
		ADDQ(U32(uint32(2*n*stride)), masks)
		INCQ(tap)
		CMPQ(tap, Mem{Base: p, Disp: offSlidCount})
		JLT(LabelRef(here + "taps"))
		if stride == 2 {
			for _, s := range sums[:2*n] {
				inOrder(s)
			}
		}
		TESTQ(flags, flags)
		JZ(LabelRef(here + "store"))
		VBROADCASTSS(Mem{Base: p, Disp: offSlidLow}, low)
		VBROADCASTSS(Mem{Base: p, Disp: offSlidHigh}, high)
		VXORPS(zero, zero, zero)
		for _, s := range sums[:2*n] {
			VMAXPS(s, low, s)
			VADDPS(zero, s, s)
			VMINPS(s, high, s)
		}
		Label(here + "store")
		for v, s := range sums[:2*n] {
			m := Mem{Base: dst, Disp: 32 * v}
			mask := Mem{Base: masks, Disp: v}
			if stride == 2 { // the second half of a vector has the upper lanes
				MOVLQSX(Mem{Base: groups, Disp: 16*(v/2) + 8 + 4*(v%2)}, a)
				m = Mem{Base: dst, Index: a, Scale: 1, Disp: 32 * (v % 2)}
				mask.Disp = 2*v + v%2
			}
			stored, part := fmt.Sprintf("%sstored%d", here, v), fmt.Sprintf("%spart%d", here, v)
			CMPB(mask, Imm(0xff))
			JNE(LabelRef(part))
			VMOVUPS(s, m)
			Label(stored)
			rare = append(rare, func() {
				Label(part)
				CMPB(mask, Imm(0))
				JEQ(LabelRef(stored))
				mask.Disp -= v % 2
				lanesOf(mask, shifts, lanes)
				VMASKMOVPS(s, lanes[v%2], m)
				JMP(LabelRef(stored))
			})
		}
		ADDQ(U32(uint32(2*n*stride)), masks)
		if stride == 1 {
			ADDQ(U32(uint32(64*n)), dst)
			ADDQ(U32(uint32(64*n)), src)
		} else {
			ADDQ(U32(uint32(16*n)), groups)
		}
		SUBQ(Imm(uint64(n)), vectors)
		JMP(LabelRef(here))
	}
	Label("end")
	VZEROUPPER()
	RET()
	for _, f := range rare {
		f()
	}
}
