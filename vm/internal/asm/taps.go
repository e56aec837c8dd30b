package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// taps adds up weighted rows: dst[i] = bias + Σ weights[t]·rows[t][i], with 64, 32 and then 8
// sums in registers (fewer than 64 wait for each other); n is a multiple of 8. If clamp is not 0, it clamps the sums to [low,
// high], as the micro-kernels do.
func taps() {
	TEXT("tapsAVX2", NOSPLIT|NOFRAME, "func(dst *float32, n int, rows *uintptr, weights *float32, count int, clamp int, bias, low, high float32)")
	Doc("tapsAVX2 writes bias and the weighted sum of rows, kept in [low, high] if clamp is not 0.")
	dst, n, rows, weights, count, clamp, x, t, row := RDI, RSI, R8, R9, R10, R11, RAX, RBX, RCX
	Load(Param("dst"), dst)
	Load(Param("n"), n)
	Load(Param("rows"), rows)
	Load(Param("weights"), weights)
	Load(Param("count"), count)
	Load(Param("clamp"), clamp)
	VBROADCASTSS(NewParamAddr("bias", 48), Y15)
	VBROADCASTSS(NewParamAddr("low", 52), Y13)
	VBROADCASTSS(NewParamAddr("high", 56), Y12)
	VXORPS(Y11, Y11, Y11)
	XORQ(x, x)
	sums := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"sixtyfour", "thirtytwo", 8}, {"thirtytwo", "eight", 4}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(n, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		for _, s := range sums[:block.vectors] {
			VMOVAPS(Y15, s)
		}
		XORQ(t, t)
		Label(block.name + "taps")
		VBROADCASTSS(Mem{Base: weights, Index: t, Scale: 4}, Y14)
		MOVQ(Mem{Base: rows, Index: t, Scale: 8}, row)
		for i, s := range sums[:block.vectors] {
			VFMADD231PS(Mem{Base: row, Index: x, Scale: 1, Disp: 32 * i}, Y14, s)
		}
		INCQ(t)
		CMPQ(t, count)
		JLT(LabelRef(block.name + "taps"))
		TESTQ(clamp, clamp)
		JZ(LabelRef(block.name + "store"))
		for _, s := range sums[:block.vectors] {
			VMAXPS(s, Y13, s)
			VADDPS(Y11, s, s)
			VMINPS(s, Y12, s)
		}
		Label(block.name + "store")
		for i, s := range sums[:block.vectors] {
			VMOVUPS(s, Mem{Base: dst, Index: x, Scale: 1, Disp: 32 * i})
		}
		ADDQ(U32(uint32(32*block.vectors)), x)
		SUBQ(Imm(uint64(8*block.vectors)), n)
		JMP(LabelRef(block.name))
	}
	Label("end")
	VZEROUPPER()
	RET()
}

// largestOf joins rows: dst[i] = max over t of rows[t][i], with 32 and then 8 numbers in
// registers; n is a multiple of 8. NaN is collected aside, since VMAXPS loses one of two.
func largestOf() {
	TEXT("largestAVX2", NOSPLIT|NOFRAME, "func(dst *float32, n int, rows *uintptr, count int)")
	Doc("largestAVX2 writes the largest number of each column, and NaN if one is NaN.")
	dst, n, rows, count, x, t, row := RDI, RSI, R8, R10, RAX, RBX, RCX
	Load(Param("dst"), dst)
	Load(Param("n"), n)
	Load(Param("rows"), rows)
	Load(Param("count"), count)
	XORQ(x, x)
	best := []VecPhysical{Y0, Y1, Y2, Y3}
	odd := []VecPhysical{Y4, Y5, Y6, Y7}
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"thirtytwo", "eight", 4}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(n, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		for i := range block.vectors {
			bits(0xff800000, best[i])
			VXORPS(odd[i], odd[i], odd[i])
		}
		XORQ(t, t)
		Label(block.name + "rows")
		MOVQ(Mem{Base: rows, Index: t, Scale: 8}, row)
		for i := range block.vectors {
			VMOVUPS(Mem{Base: row, Index: x, Scale: 1, Disp: 32 * i}, Y8)
			VCMPPS(Imm(3), Y8, Y8, Y9) // is NaN
			VORPS(Y9, odd[i], odd[i])
			VMAXPS(Y8, best[i], best[i])
		}
		INCQ(t)
		CMPQ(t, count)
		JLT(LabelRef(block.name + "rows"))
		for i := range block.vectors {
			VORPS(odd[i], best[i], best[i])
			VMOVUPS(best[i], Mem{Base: dst, Index: x, Scale: 1, Disp: 32 * i})
		}
		ADDQ(Imm(uint64(32*block.vectors)), x)
		SUBQ(Imm(uint64(8*block.vectors)), n)
		JMP(LabelRef(block.name))
	}
	Label("end")
	VZEROUPPER()
	RET()
}

// dots multiplies a list with three others: 32 and then 8 numbers at a time.
func dots() {
	TEXT("dotsAVX2", NOSPLIT|NOFRAME, "func(sums *[3]float32, x, a, b, c *float32, n int)")
	Doc("dotsAVX2 writes the sums of the products of x with a, b and c, of n numbers, a multiple of 8.")
	sums, x, n := RDI, RSI, RCX
	lists := []GPPhysical{R8, R9, R10}
	Load(Param("sums"), sums)
	Load(Param("x"), x)
	for i, name := range []string{"a", "b", "c"} {
		Load(Param(name), lists[i])
	}
	Load(Param("n"), n)
	y := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11}
	for _, v := range y {
		VXORPS(v, v, v)
	}
	XORQ(RAX, RAX)
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"thirtytwo", "eight", 4}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(n, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		for i := range block.vectors {
			VMOVUPS(Mem{Base: x, Index: RAX, Scale: 1, Disp: 32 * i}, Y12)
			for k, list := range lists {
				VFMADD231PS(Mem{Base: list, Index: RAX, Scale: 1, Disp: 32 * i}, Y12, y[4*k+i])
			}
		}
		ADDQ(Imm(uint64(32*block.vectors)), RAX)
		SUBQ(Imm(uint64(8*block.vectors)), n)
		JMP(LabelRef(block.name))
	}
	Label("end")
	for k := range lists {
		v := y[4*k : 4*k+4]
		VADDPS(v[1], v[0], v[0])
		VADDPS(v[3], v[2], v[2])
		VADDPS(v[2], v[0], v[0])
		VEXTRACTF128(Imm(1), v[0], X13)
		VADDPS(X13, v[0].AsX(), v[0].AsX())
		VHADDPS(v[0].AsX(), v[0].AsX(), v[0].AsX())
		VHADDPS(v[0].AsX(), v[0].AsX(), v[0].AsX())
		VMOVSS(v[0].AsX(), Mem{Base: sums, Disp: 4 * k})
	}
	VZEROUPPER()
	RET()
}

// largestTap is largestOf that also writes which row each number comes from. A number
// replaces the largest so far if it is larger or NaN, so of equal ones the first stays.
func largestTap() {
	TEXT("largestTapAVX2", NOSPLIT|NOFRAME, "func(dst *float32, taps *int32, n int, rows *uintptr, count int)")
	Doc("largestTapAVX2 writes the largest number of each column and its row, -1 if all are -∞, and the last NaN if there is one.")
	dst, taps, n, rows, count, x, t, row := RDI, RDX, RSI, R8, R10, RAX, RBX, RCX
	Load(Param("dst"), dst)
	Load(Param("taps"), taps)
	Load(Param("n"), n)
	Load(Param("rows"), rows)
	Load(Param("count"), count)
	VPCMPEQD(Y15, Y15, Y15) // -1
	XORQ(x, x)
	best := []VecPhysical{Y0, Y1}
	from := []VecPhysical{Y2, Y3}
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"sixteen", "eight", 2}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(n, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		for i := range block.vectors {
			bits(0xff800000, best[i])
			VMOVDQU(Y15, from[i])
		}
		VPXOR(Y14, Y14, Y14) // the number of the row
		XORQ(t, t)
		Label(block.name + "rows")
		MOVQ(Mem{Base: rows, Index: t, Scale: 8}, row)
		for i := range block.vectors {
			VMOVUPS(Mem{Base: row, Index: x, Scale: 1, Disp: 32 * i}, Y8)
			VCMPPS(Imm(30), best[i], Y8, Y9)
			VCMPPS(Imm(3), Y8, Y8, Y10)
			VORPS(Y10, Y9, Y9)
			VBLENDVPS(Y9, Y8, best[i], best[i])
			VBLENDVPS(Y9, Y14, from[i], from[i])
		}
		VPSUBD(Y15, Y14, Y14)
		INCQ(t)
		CMPQ(t, count)
		JLT(LabelRef(block.name + "rows"))
		for i := range block.vectors {
			VMOVUPS(best[i], Mem{Base: dst, Index: x, Scale: 1, Disp: 32 * i})
			VMOVDQU(from[i], Mem{Base: taps, Index: x, Scale: 1, Disp: 32 * i})
		}
		ADDQ(Imm(uint64(32*block.vectors)), x)
		SUBQ(Imm(uint64(8*block.vectors)), n)
		JMP(LabelRef(block.name))
	}
	Label("end")
	VZEROUPPER()
	RET()
}
