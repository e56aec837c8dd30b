package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// extent keeps four vectors of each bound, to break the chain of dependent instructions.
func extent() {
	TEXT("extentAVX2", NOSPLIT|NOFRAME, "func(bounds, src *float32, n int)")
	Doc("extentAVX2 writes eight minima and eight maxima of 0 and n numbers, a multiple of 32, without NaN.")
	bounds, src, n := RDI, RSI, RCX
	Load(Param("bounds"), bounds)
	Load(Param("src"), src)
	Load(Param("n"), n)
	low, high := []VecPhysical{Y0, Y1, Y2, Y3}, []VecPhysical{Y4, Y5, Y6, Y7}
	for i := range low {
		VXORPS(low[i], low[i], low[i])
		VXORPS(high[i], high[i], high[i])
	}
	Label("numbers")
	for i := range low {
		VMOVUPS(Mem{Base: src, Disp: 32 * i}, Y8)
		VMINPS(low[i], Y8, low[i]) // the bound, if the number is NaN
		VMAXPS(high[i], Y8, high[i])
	}
	ADDQ(Imm(128), src)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("numbers"))
	for _, i := range []int{1, 2, 3} {
		VMINPS(low[i], low[0], low[0])
		VMAXPS(high[i], high[0], high[0])
	}
	VMOVUPS(low[0], Mem{Base: bounds})
	VMOVUPS(high[0], Mem{Base: bounds, Disp: 32})
	VZEROUPPER()
	RET()
}
