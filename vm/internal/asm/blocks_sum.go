package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sumBlocks adds up the pixels of a block in float64, for each channel in the order in which
// sum adds up a list. There are sixteen sums of every sixteenth pixel, and registers for half of
// them at a time.
func sumBlocks(wide bool) {
	name, lanes := "sumBlocksAVX2", 4
	if wide {
		name, lanes = "sumBlocksAVX512", 8
	}
	register := func(n int) VecPhysical {
		if wide {
			return []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9}[n]
		}
		return []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9}[n]
	}
	zero := func(y VecPhysical) {
		if wide {
			VPXORD(y, y, y)
			return
		}
		VXORPD(y, y, y)
	}
	TEXT(name, NOSPLIT|NOFRAME, "func(sums *[16]float64, src *byte, n int)")
	Pragma("noescape")
	Doc(name + " writes the sums of n pixels of a block, a multiple of 16 that is not 0.")
	sums, src, n, at, left := RDI, RSI, RCX, RAX, RDX
	Load(Param("sums"), sums)
	Load(Param("src"), src)
	Load(Param("n"), n)
	groups := R8
	MOVQ(U32(uint32(16/lanes)), groups)
	read, half := register(8), register(9)
	Label("lanes")
	for parity := range 2 {
		label := []string{"even", "odd"}[parity]
		for i := range 8 {
			zero(register(i))
		}
		MOVQ(src, at)
		MOVQ(n, left)
		Label(label)
		for i := range 8 { // pixels 0, 2, 4 …, or 1, 3, 5 …
			VCVTPS2PD(Mem{Base: at, Disp: blockPixel * (2*i + parity)}, read)
			VADDPD(read, register(i), register(i))
		}
		ADDQ(U32(16*blockPixel), at)
		SUBQ(Imm(16), left)
		JNZ(LabelRef(label))
		for column := range 2 { // sums 0 and 2 of each four, or 1 and 3
			a := register(column)
			VADDPD(register(2+column), a, a)
			VADDPD(register(6+column), register(4+column), register(4+column))
			VADDPD(register(4+column), a, a)
		}
		VADDPD(register(1), register(0), register(0))
		if parity == 0 {
			VMOVAPD(register(0), half)
		}
	}
	VADDPD(register(0), half, half)
	VMOVUPD(half, Mem{Base: sums})
	ADDQ(Imm(uint64(4*lanes)), src)
	ADDQ(Imm(uint64(8*lanes)), sums)
	DECQ(groups)
	JNZ(LabelRef("lanes"))
	VZEROUPPER()
	RET()
}
