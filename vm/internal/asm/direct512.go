package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.sliding. direct_amd64.go checks them at compile time.
const (
	offSlidDst     = 0
	offSlidSrc     = 8
	offSlidWeights = 16
	offSlidTaps    = 24
	offSlidMasks   = 32
	offSlidGroups  = 40
	offSlidEvens   = 48
	offSlidCount   = 56
	offSlidVectors = 64
	offSlidClamp   = 72
	offSlidBias    = 80
	offSlidLow     = 84
	offSlidHigh    = 88
	offSlidScale   = 92
	offSlidPad     = 96
	offSlidZero    = 100
	offSlidRow     = 104
)

// slide is what a kernel computes of the elements under it.
type slide int

const (
	weighs   slide = iota // the weighted sum of reals
	chooses               // the largest real
	unsigned              // the weighted sum of unsigned bytes, rounded to bytes
	signs                 // of signed bytes
)

var slides = [...]struct{ name, doc string }{
	weighs:   {"weigh", "the weighted sums under a kernel"},
	chooses:  {"largest", "the largest elements under a kernel"},
	unsigned: {"unsigned", "the weighted sums of unsigned bytes under a kernel, as bytes,"},
	signs:    {"signed", "the weighted sums of signed bytes under a kernel, as bytes,"},
}

// direct slides a kernel over one channel, read in place: it writes bias and the weighted
// sum of the taps, or the largest of them. Sixteen outputs are a vector. A mask for each
// vector and tap leaves out what lies outside of the image, and another one the outputs
// behind the last. With stride 1, the elements that a tap reads for a vector are
// contiguous. With stride 2, each eight outputs read every other of sixteen elements.
//
// Bytes are widened to 32 bits, of which the product takes the lower 16: the upper half
// of a weight is 0. The zero point of the image stands for what lies outside of it, so
// that one number accounts for it in all sums.
func direct(stride int, s slide) {
	largest, bytes := s == chooses, s == unsigned || s == signs
	name, what := fmt.Sprintf("%s%dAVX512", slides[s].name, stride), slides[s].doc
	size := 4 // of an element
	if bytes {
		size = 1
	}
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s with stride %d.", name, what, stride))
	p, dst, src, weights, taps, masks, groups, vectors := RDI, R8, R9, R10, R11, R12, R13, R14
	tap, at, a, b, flags := RAX, RBX, RCX, RDX, RSI
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
	zs := []VecPhysical{
		Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23,
	}
	sums, read, odd := zs[:8], zs[8:16], zs[16:24]
	weight, first, low, high, zero, evens, ones := Z24, Z25, Z26, Z27, Z28, Z29, Z30
	scale, pad := Z23, Z31 // of bytes
	ks := []OpmaskPhysical{K1, K2, K3, K4, K5, K6}
	VPXORD(zero, zero, zero)
	if largest {
		bits512(math.Float32bits(float32(math.Inf(-1))), first)
		VPTERNLOGD(Imm(0xff), ones, ones, ones)
	} else {
		VBROADCASTSS(Mem{Base: p, Disp: offSlidBias}, first)
		VBROADCASTSS(Mem{Base: p, Disp: offSlidLow}, low)
		VBROADCASTSS(Mem{Base: p, Disp: offSlidHigh}, high)
	}
	if bytes {
		VBROADCASTSS(Mem{Base: p, Disp: offSlidScale}, scale)
		VBROADCASTSS(Mem{Base: p, Disp: offSlidPad}, pad)
		VBROADCASTSS(Mem{Base: p, Disp: offSlidZero}, zero)
	}
	sizes := []int{8, 4, 2, 1}
	if stride == 2 {
		sizes = sizes[1:]
		get(offSlidEvens, a)
		VMOVUPS(Mem{Base: a}, evens)
	}
	// load reads sixteen elements, with what the mask leaves out as padding.
	load := func(m Mem, k OpmaskPhysical, to VecPhysical) {
		switch s {
		case weighs:
			VMOVUPS_Z(m, k, to)
		case chooses:
			VMOVAPS(first, to)
			VMOVUPS(m, k, to)
		case unsigned:
			VMOVAPS(pad, to)
			VPMOVZXBD(m, k, to)
		case signs:
			VMOVAPS(pad, to)
			VPMOVSXBD(m, k, to)
		}
	}
	store := func(v VecPhysical, k OpmaskPhysical, m Mem) {
		if bytes {
			VMOVDQU8(v.AsX(), k, m)
			return
		}
		VMOVUPS(v, k, m)
	}
	for i, n := range sizes {
		here, next := fmt.Sprintf("by%d", n), "end"
		if i+1 < len(sizes) {
			next = fmt.Sprintf("by%d", sizes[i+1])
		}
		Label(here)
		CMPQ(vectors, Imm(uint64(n)))
		JLT(LabelRef(next))
		for v := range n {
			VMOVAPS(first, sums[v])
			if largest {
				VMOVAPS(zero, odd[v])
			}
		}
		if stride == 1 {
			for line := 0; line < 16*size*n; line += 64 {
				PREFETCHT0(Mem{Base: src, Disp: ahead + line})
			}
		} else {
			get(offSlidRow, b)
			ADDQ(src, b)
			for v := range 2 * n { // the groups
				MOVLQSX(Mem{Base: groups, Disp: 16*(v/2) + 4*(v%2)}, a)
				PREFETCHT0(Mem{Base: src, Index: a, Scale: 1, Disp: ahead})
				PREFETCHT0(Mem{Base: b, Index: a, Scale: 1, Disp: ahead})
			}
		}
		XORQ(tap, tap)
		Label(here + "taps")
		MOVLQSX(Mem{Base: taps, Index: tap, Scale: 4}, at)
		ADDQ(src, at)
		if !largest {
			VBROADCASTSS(Mem{Base: weights, Index: tap, Scale: 4}, weight)
		}
		for v := range n {
			x := read[v]
			if stride == 1 {
				k := ks[v%len(ks)]
				KMOVW(Mem{Base: masks, Disp: 2 * v}, k)
				load(Mem{Base: at, Disp: 16 * size * v}, k, x)
			} else {
				y := read[4+v]
				k, l := ks[2*v%len(ks)], ks[(2*v+1)%len(ks)]
				MOVLQSX(Mem{Base: groups, Disp: 16 * v}, a)
				MOVLQSX(Mem{Base: groups, Disp: 16*v + 4}, b)
				KMOVW(Mem{Base: masks, Disp: 4 * v}, k)
				KMOVW(Mem{Base: masks, Disp: 4*v + 2}, l)
				load(Mem{Base: at, Index: a, Scale: 1}, k, x)
				load(Mem{Base: at, Index: b, Scale: 1}, l, y)
				VPERMT2PS(y, evens, x)
			}
			if bytes {
				VPDPWSSD(x, weight, sums[v])
				continue
			}
			if !largest {
				VFMADD231PS(x, weight, sums[v])
				continue
			}
			VCMPPS(Imm(3), x, x, K7) // is NaN
			VMOVAPS(ones, K7, odd[v])
			VMAXPS(x, sums[v], sums[v])
		}
		ADDQ(U32(uint32(2*n*stride)), masks)
		INCQ(tap)
		CMPQ(tap, Mem{Base: p, Disp: offSlidCount})
		JLT(LabelRef(here + "taps"))
		switch {
		case largest:
			for v := range n {
				VPORD(odd[v], sums[v], sums[v])
			}
		case bytes: // as requantizeAVX512
			for _, s := range sums[:n] {
				VCVTDQ2PS(s, s)
				VMULPS(scale, s, s)
				VMAXPS(low, s, s)
				VMINPS(high, s, s)
				VCVTPS2DQ(s, s)
				VPADDD(zero, s, s)
				VPMOVDB(s, s.AsX())
			}
		default:
			TESTQ(flags, flags)
			JZ(LabelRef(here + "store"))
			for _, s := range sums[:n] {
				VMAXPS(s, low, s)
				VADDPS(zero, s, s)
				VMINPS(s, high, s)
			}
			Label(here + "store")
		}
		for v := range n {
			if stride == 1 {
				KMOVW(Mem{Base: masks, Disp: 2 * v}, K1)
				store(sums[v], K1, Mem{Base: dst, Disp: 16 * size * v})
				continue
			}
			MOVLQSX(Mem{Base: groups, Disp: 16*v + 8}, a)
			MOVLQSX(Mem{Base: groups, Disp: 16*v + 12}, b)
			KMOVW(Mem{Base: masks, Disp: 4 * v}, K1)
			KMOVW(Mem{Base: masks, Disp: 4*v + 2}, K2)
			store(sums[v], K1, Mem{Base: dst, Index: a, Scale: 1})
			store(sums[v], K2, Mem{Base: dst, Index: b, Scale: 1})
		}
		ADDQ(U32(uint32(2*n*stride)), masks)
		if stride == 1 {
			ADDQ(U32(uint32(16*size*n)), dst)
			ADDQ(U32(uint32(16*size*n)), src)
		} else {
			ADDQ(U32(uint32(16*n)), groups)
		}
		SUBQ(Imm(uint64(n)), vectors)
		JMP(LabelRef(here))
	}
	Label("end")
	VZEROUPPER()
	RET()
}
