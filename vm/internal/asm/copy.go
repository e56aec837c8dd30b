package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// copyRows copies rows of 16 columns, which are dstStep and srcStep bytes apart.
func copyRows() {
	TEXT("copyRows", NOSPLIT|NOFRAME, "func(dst, src *byte, rows, dstStep, srcStep int)")
	Doc("copyRows copies rows of 16 columns.")
	dst, src, rows, dstStep, srcStep := RDI, RSI, RCX, R8, R9
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("rows"), rows)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	Label("row")
	// The next strip begins behind two of these, at each depth.
	PREFETCHT1(Mem{Base: src, Disp: 128})
	VMOVUPS(Mem{Base: src}, Y0)
	VMOVUPS(Mem{Base: src, Disp: 32}, Y1)
	VMOVUPS(Y0, Mem{Base: dst})
	VMOVUPS(Y1, Mem{Base: dst, Disp: 32})
	ADDQ(srcStep, src)
	ADDQ(dstStep, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
