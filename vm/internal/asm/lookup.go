package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// lookUp writes the loop that looks up bytes in 16 rows of 16, each less (XOR) the row before
// it, with the first and the ninth as they are. VPSHUFB gives 0 for a negative byte. So of
// the rows of a half, it adds those up to the byte's own, as 16 is taken off for each row.
func lookUp() {
	TEXT("lookUpAVX2", NOSPLIT|NOFRAME, "func(dst, src *uint8, n int, rows *uint8)")
	Doc("lookUpAVX2 looks up n bytes, a multiple of 128, in the rows of a table (spread).")
	dst, src, n, rows := RDI, RSI, RCX, RDX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	Load(Param("rows"), rows)
	x := []VecPhysical{Y0, Y1, Y2, Y3}
	sums := []VecPhysical{Y4, Y5, Y6, Y7}
	found := []VecPhysical{Y8, Y9, Y10, Y11}
	row, step, top := Y12, Y13, Y14
	one(step)
	VPSLLW(Imm(7), step, top) // 0x80 in each byte
	VPSLLW(Imm(4), step, step)
	Label("loop")
	for i := range x {
		VMOVDQU(Mem{Base: src, Disp: 32 * i}, x[i])
	}
	for half := range 2 {
		for k := range 8 {
			VBROADCASTI128(Mem{Base: rows, Disp: 16 * (8*half + k)}, row)
			for i := range x {
				switch {
				case k > 0:
					VPSUBSB(step, x[i], x[i])
				case half > 0:
					VPXOR(Mem{Base: src, Disp: 32 * i}, top, x[i])
				}
				to := found[i]
				if half == 0 && k == 0 {
					to = sums[i]
				}
				VPSHUFB(x[i], row, to)
				if to == found[i] {
					VPXOR(to, sums[i], sums[i])
				}
			}
		}
	}
	for i := range x {
		VMOVDQU(sums[i], Mem{Base: dst, Disp: 32 * i})
	}
	ADDQ(Imm(128), src)
	ADDQ(Imm(128), dst)
	SUBQ(Imm(128), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
