package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The conversions of 16 bits for sixteen numbers at a time, with the bits of those for eight.

// sixteenHalves writes a loop over n numbers, a multiple of 16, whose operands have so many bytes.
func sixteenHalves(name, signature, doc string, dstBytes, srcBytes int, body func()) {
	TEXT(name, NOSPLIT|NOFRAME, signature)
	Doc(doc + "; n is a multiple of 16.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	brainBits512()
	Label("sixteen")
	body()
	ADDQ(Imm(uint64(16*srcBytes)), RSI)
	ADDQ(Imm(uint64(16*dstBytes)), RDI)
	SUBQ(Imm(16), RCX)
	JNZ(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}

// upperBrain512 is upperBrain in Z1, with other bits in the lower half of each number.
func upperBrain512() {
	VMOVUPS(Mem{Base: RSI}, Z0)
	upperOf512()
}

// upperOf512 is upperBrain512 of Z0.
func upperOf512() {
	VPTESTMD(Z11, Z0, K2)
	VPADDD(Z14, Z0, Z1)
	VPADDD(Z13, Z1, K2, Z1)
	VCMPPS(Imm(3), Z0, Z0, K1) // unordered
	VPORD(Z15, Z0, K1, Z1)
}

// brainBits512 fills the registers that upperOf512 reads, and Z12, the bits that stay.
func brainBits512() {
	bits512(1, Z13)
	bits512(0x7fff, Z14)
	bits512(0x400000, Z15)
	bits512(0xffff0000, Z12)
	bits512(1<<16, Z11)
}

// roundedPairs512 writes loops that round the results of an operation on two lists: of numbers in
// float32, which stay there, and of 16 bits. op takes a in Z0 and b in Z1, and leaves the result in Z0.
func roundedPairs512(name string, op func()) {
	loop := func(name, signature, doc string, bytes int, body func(dst, a, b Mem)) {
		TEXT(name, NOSPLIT|NOFRAME, signature)
		Doc(doc + "; n is a multiple of 16.")
		Load(Param("dst"), RDI)
		Load(Param("a"), RSI)
		Load(Param("b"), RDX)
		Load(Param("n"), RCX)
		brainBits512()
		XORQ(RAX, RAX)
		Label("sixteen")
		at := func(base GPPhysical) Mem { return Mem{Base: base, Index: RAX, Scale: uint8(bytes)} }
		body(at(RDI), at(RSI), at(RDX))
		ADDQ(Imm(16), RAX)
		CMPQ(RAX, RCX)
		JNE(LabelRef("sixteen"))
		VZEROUPPER()
		RET()
	}
	wide, narrow := "func(dst, a, b *float32, n int)", "func(dst, a, b *uint16, n int)"
	loop(name+"AsHalfAVX512", wide, name+"AsHalfAVX512 rounds the results to what float16 has, too", 4, func(dst, a, b Mem) {
		VMOVUPS(a, Z0)
		VMOVUPS(b, Z1)
		op()
		VCVTPS2PH(Imm(0), Z0, Y0)
		VCVTPH2PS(Y0, Z0)
		VMOVUPS(Z0, dst)
	})
	loop(name+"AsBrainAVX512", wide, name+"AsBrainAVX512 rounds the results to what bfloat16 has, too", 4, func(dst, a, b Mem) {
		VMOVUPS(a, Z0)
		VMOVUPS(b, Z1)
		op()
		upperOf512()
		VPANDD(Z12, Z1, Z1)
		VMOVUPS(Z1, dst)
	})
	loop(name+"HalvesAVX512", narrow, name+"HalvesAVX512 computes with float16", 2, func(dst, a, b Mem) {
		VCVTPH2PS(a, Z0)
		VCVTPH2PS(b, Z1)
		op()
		VCVTPS2PH(Imm(0), Z0, dst)
	})
	loop(name+"BrainsAVX512", narrow, name+"BrainsAVX512 computes with bfloat16", 2, func(dst, a, b Mem) {
		VPMOVZXWD(a, Z0)
		VPMOVZXWD(b, Z1)
		VPSLLD(Imm(16), Z0, Z0)
		VPSLLD(Imm(16), Z1, Z1)
		op()
		upperOf512()
		VPSRLD(Imm(16), Z1, Z1)
		VPMOVDW(Z1, dst)
	})
}

func halves512() {
	wide, narrow := "func(dst *float32, src *uint16, n int)", "func(dst *uint16, src *float32, n int)"
	dst, src := Mem{Base: RDI}, Mem{Base: RSI}
	sixteenHalves("halvesAVX512", wide, "halvesAVX512 reads float16", 4, 2, func() {
		VCVTPH2PS(src, Z0)
		VMOVUPS(Z0, dst)
	})
	sixteenHalves("brainsAVX512", wide, "brainsAVX512 reads bfloat16", 4, 2, func() {
		VPMOVZXWD(src, Z0)
		VPSLLD(Imm(16), Z0, Z0)
		VMOVUPS(Z0, dst)
	})
	sixteenHalves("toHalfAVX512", narrow, "toHalfAVX512 rounds to float16, ties to even", 2, 4, func() {
		VMOVUPS(src, Z0)
		VCVTPS2PH(Imm(0), Z0, Y0)
		VMOVDQU(Y0, dst)
	})
	sixteenHalves("toBrainAVX512", narrow, "toBrainAVX512 rounds to bfloat16, ties to even", 2, 4, func() {
		upperBrain512()
		VPSRLD(Imm(16), Z1, Z1)
		VPMOVDW(Z1, dst)
	})
	sixteenHalves("asHalfAVX512", "func(dst, src *float32, n int)", "asHalfAVX512 rounds to the float32 that float16 has, too, ties to even", 4, 4, func() {
		VMOVUPS(src, Z0)
		VCVTPS2PH(Imm(0), Z0, Y0)
		VCVTPH2PS(Y0, Z0)
		VMOVUPS(Z0, dst)
	})
	sixteenHalves("asBrainAVX512", "func(dst, src *float32, n int)", "asBrainAVX512 rounds to the float32 that bfloat16 has, too, ties to even", 4, 4, func() {
		upperBrain512()
		VPANDD(Z12, Z1, Z1)
		VMOVUPS(Z1, dst)
	})
	sixteenHalves("joinHalvesAVX512", wide, "joinHalvesAVX512 rounds to float16 and adds float16", 4, 2, func() {
		VMOVUPS(dst, Z0)
		VCVTPS2PH(Imm(0), Z0, Y0)
		VCVTPH2PS(Y0, Z0)
		VCVTPH2PS(src, Z1)
		VADDPS(Z1, Z0, Z0)
		VMOVUPS(Z0, dst)
	})
	sixteenHalves("joinBrainsAVX512", wide, "joinBrainsAVX512 rounds to bfloat16 and adds bfloat16", 4, 2, func() {
		VMOVUPS(dst, Z0)
		upperOf512()
		VPANDD(Z12, Z1, Z0)
		VPMOVZXWD(src, Z1)
		VPSLLD(Imm(16), Z1, Z1)
		VADDPS(Z1, Z0, Z0)
		VMOVUPS(Z0, dst)
	})
	roundedPairs512("add", func() { VADDPS(Z1, Z0, Z0) })
	roundedPairs512("sub", func() { VSUBPS(Z1, Z0, Z0) })
	roundedPairs512("mul", func() { VMULPS(Z1, Z0, Z0) })
}
