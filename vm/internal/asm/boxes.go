package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// meeting compares a box with eight boxes at a time. A block holds their y1, their x1,
// their y2 and their x2.
func meeting() {
	TEXT("meetingAVX2", NOSPLIT|NOFRAME, "func(blocks *float32, n int, box *float32) int")
	Doc("meetingAVX2 returns the index of the first of n blocks with a box that meets box; n if there is none.")
	blocks, n, box, i := RSI, RCX, RDI, RAX
	Load(Param("blocks"), blocks)
	Load(Param("n"), n)
	Load(Param("box"), box)
	y1, x1, y2, x2 := Y0, Y1, Y2, Y3
	for k, v := range []VecPhysical{y1, x1, y2, x2} {
		VBROADCASTSS(Mem{Base: box, Disp: 4 * k}, v)
	}
	XORQ(i, i)
	const less, greater = 0x11, 0x1e // false if a number is NaN
	Label("block")
	CMPQ(i, n)
	JGE(LabelRef("end"))
	VCMPPS(Imm(greater), Mem{Base: blocks}, y2, Y4)
	VCMPPS(Imm(greater), Mem{Base: blocks, Disp: 32}, x2, Y5)
	VCMPPS(Imm(less), Mem{Base: blocks, Disp: 64}, y1, Y6)
	VCMPPS(Imm(less), Mem{Base: blocks, Disp: 96}, x1, Y7)
	VANDPS(Y4, Y5, Y4)
	VANDPS(Y6, Y7, Y6)
	VTESTPS(Y4, Y6)
	JNZ(LabelRef("end"))
	ADDQ(Imm(128), blocks)
	INCQ(i)
	JMP(LabelRef("block"))
	Label("end")
	Store(i, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
