package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// binary writes the loop of an operation on two lists, 32 and then 8 numbers at a time; n is
// a multiple of 8. op takes a in one register and b in another, and leaves the result in a's
// register.
func binary(name, doc string, op func(b, a VecPhysical)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, a, b *float32, n int)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("b"), RDX)
	Load(Param("n"), RCX)
	strides(RCX, func(disp int, y, z VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: disp}, y)
		VMOVUPS(Mem{Base: RDX, Disp: disp}, z)
		op(z, y)
		VMOVUPS(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDX, RDI)
}

// scalar writes the loop of an operation on a list and a number.
func scalar(name, doc string, op func(b, a VecPhysical)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, a *float32, n int, b float32)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("b", 24), Y15)
	strides(RCX, func(disp int, y, _ VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: disp}, y)
		op(Y15, y)
		VMOVUPS(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDI)
}

// unary writes the loop of an operation on a list.
func unary(name, doc string, op func(a VecPhysical)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, a *float32, n int)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("a"), RSI)
	Load(Param("n"), RCX)
	strides(RCX, func(disp int, y, _ VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: disp}, y)
		op(y)
		VMOVUPS(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDI)
}

func absolute(a VecPhysical) {
	bits(1<<31-1, Y13)
	VANDPS(Y13, a, a)
}

// integer rounds to the nearest integer (mode 0; of two the even one), down (1) or up (2).
func integer(mode int) func(a VecPhysical) {
	return func(a VecPhysical) { VROUNDPS(Imm(uint64(8+mode)), a, a) }
}

// affine writes the loop of scale·x + shift.
func affine() {
	TEXT("affineAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, n int, scale, shift float32)")
	Doc("affineAVX2 writes scale·x + shift, rounded once.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("scale", 24), Y14)
	VBROADCASTSS(NewParamAddr("shift", 28), Y15)
	strides(RCX, func(disp int, y, _ VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: disp}, y)
		VFMADD213PS(Y15, Y14, y)
		VMOVUPS(y, Mem{Base: RDI, Disp: disp})
	}, RSI, RDI)
}

// addEveryOther puts zeros between the numbers, and adds.
func addEveryOther() {
	TEXT("addEveryOtherAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, n int)")
	Doc("addEveryOtherAVX2 adds n numbers, a multiple of 8, to every other number of dst, and 0 to those between.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VXORPS(Y3, Y3, Y3)
	Label("eight")
	VPERMQ(Imm(0xd8), Mem{Base: RSI}, Y0) // pairs 0, 2, 1, 3: each half is unpacked on its own
	VUNPCKLPS(Y3, Y0, Y1)
	VUNPCKHPS(Y3, Y0, Y2)
	for i, y := range []VecPhysical{Y1, Y2} {
		VADDPS(Mem{Base: RDI, Disp: 32 * i}, y, y)
		VMOVUPS(y, Mem{Base: RDI, Disp: 32 * i})
	}
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(64), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// addWide adds numbers to sums of twice the width.
func addWide() {
	TEXT("addWideAVX2", NOSPLIT|NOFRAME, "func(sums *float64, src *float32, n int)")
	Doc("addWideAVX2 adds n numbers, a multiple of 16, to sums.")
	Load(Param("sums"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	Label("sixteen")
	for i := range 4 {
		VCVTPS2PD(Mem{Base: RSI, Disp: 16 * i}, sums8[i])
		VADDPD(Mem{Base: RDI, Disp: 32 * i}, sums8[i], sums8[i])
		VMOVUPD(sums8[i], Mem{Base: RDI, Disp: 32 * i})
	}
	ADDQ(Imm(64), RSI)
	ADDQ(Imm(128), RDI)
	SUBQ(Imm(16), RCX)
	JNZ(LabelRef("sixteen"))
	VZEROUPPER()
	RET()
}

// strides writes the loops over n numbers, 32 and then 8 at a time, which advance the
// pointers, and the return. It prefetches: lists are often in no cache that is near.
func strides(n Register, body func(disp int, y, z VecPhysical), pointers ...Register) {
	pairs := [][2]VecPhysical{{Y0, Y1}, {Y2, Y3}, {Y4, Y5}, {Y6, Y7}}
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"thirtytwo", "eight", 4}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(n, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		if block.vectors > 1 {
			for _, p := range pointers {
				PREFETCHT0(Mem{Base: p, Disp: ahead})
				PREFETCHT0(Mem{Base: p, Disp: ahead + 64})
			}
		}
		for i := range block.vectors {
			body(32*i, pairs[i][0], pairs[i][1])
		}
		for _, p := range pointers {
			ADDQ(Imm(uint64(32*block.vectors)), p)
		}
		SUBQ(Imm(uint64(8*block.vectors)), n)
		JMP(LabelRef(block.name))
	}
	Label("end")
	VZEROUPPER()
	RET()
}

// larger leaves the larger of a and b in a, 0 of 0 and -0, and NaN if either is NaN.
func larger(b, a VecPhysical) { extreme(b, a, VMAXPS, VANDPS) }

// smaller leaves the smaller of a and b in a, -0 of 0 and -0, and NaN if either is NaN.
func smaller(b, a VecPhysical) { extreme(b, a, VMINPS, VORPS) }

// extreme takes both of pick(a, b) and pick(b, a), which differ for 0 and -0, and join of
// these.
func extreme(b, a VecPhysical, pick, join func(...Op)) {
	VCMPPS(Imm(3), b, a, Y14) // one is NaN
	pick(a, b, Y12)
	pick(b, a, Y13)
	join(Y12, Y13, Y13)
	VADDPS(b, a, a)
	VBLENDVPS(Y14, a, Y13, a)
}

// negative leaves -a in a.
func negative(a VecPhysical) {
	bits(1<<31, Y13)
	VXORPS(Y13, a, a)
}

// signOf leaves 1 in a where it is above 0, -1 where it is below, else a.
func signOf(a VecPhysical) {
	VXORPS(Y13, Y13, Y13)
	constant(1, Y8)
	constant(-1, Y9)
	VCMPPS(Imm(30), Y13, a, Y10) // a > 0
	VCMPPS(Imm(17), Y13, a, Y11) // a < 0
	VBLENDVPS(Y10, Y8, a, a)
	VBLENDVPS(Y11, Y9, a, a)
}

// sum adds up a list in float64, in sixteen partial sums.
func sum() {
	TEXT("sumAVX2", NOSPLIT|NOFRAME, "func(src *float32, n int) float64")
	Doc("sumAVX2 adds up n numbers, a multiple of 16.")
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	total()
	Label("sixteen")
	for i := range 4 {
		VCVTPS2PD(Mem{Base: RSI, Disp: 16 * i}, sums8[4+i])
		VADDPD(sums8[4+i], sums8[i], sums8[i])
	}
	finish()
}

// squares adds up the squares of differences.
func squares() {
	TEXT("squaresAVX2", NOSPLIT|NOFRAME, "func(src *float32, n int, mean float64) float64")
	Doc("squaresAVX2 adds up the squares of n numbers, a multiple of 16, less a mean.")
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSD(NewParamAddr("mean", 16), Y15)
	total()
	Label("sixteen")
	for i := range 4 {
		VCVTPS2PD(Mem{Base: RSI, Disp: 16 * i}, sums8[4+i])
		VSUBPD(Y15, sums8[4+i], sums8[4+i])
		VFMADD231PD(sums8[4+i], sums8[4+i], sums8[i])
	}
	finish()
}

// squaresAround adds up the squares of differences that are rounded to float32.
func squaresAround() {
	TEXT("squaresAroundAVX2", NOSPLIT|NOFRAME, "func(src *float32, n int, mean float32) float64")
	Doc("squaresAroundAVX2 adds up the squares of n numbers, a multiple of 16, less a mean, rounded before they are squared.")
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("mean", 16), X15)
	total()
	Label("sixteen")
	for i := range 4 {
		x := sums8[4+i].AsX()
		VMOVUPS(Mem{Base: RSI, Disp: 16 * i}, x)
		VSUBPS(X15, x, x)
		VCVTPS2PD(x, sums8[4+i])
		VFMADD231PD(sums8[4+i], sums8[4+i], sums8[i])
	}
	finish()
}

// normSums adds up a list and its products with another one that is normalized.
func normSums() {
	TEXT("normSumsAVX2", NOSPLIT|NOFRAME, "func(sums *float64, d, x *float32, n int, mean, inverse float32)")
	Doc("normSumsAVX2 writes the sums of d and of d·((x - mean)·inverse) for n numbers, a multiple of 16.")
	Load(Param("sums"), RDI)
	Load(Param("d"), RSI)
	Load(Param("x"), RDX)
	Load(Param("n"), RCX)
	VBROADCASTSS(NewParamAddr("mean", 32), X14)
	VBROADCASTSS(NewParamAddr("inverse", 36), X15)
	products := []VecPhysical{Y4, Y5, Y6, Y7}
	total()
	for _, y := range products {
		VXORPD(y, y, y)
	}
	Label("sixteen")
	for i := range 4 {
		d, x := []VecPhysical{X8, X10}[i%2], []VecPhysical{X9, X11}[i%2]
		VMOVUPS(Mem{Base: RSI, Disp: 16 * i}, d)
		VMOVUPS(Mem{Base: RDX, Disp: 16 * i}, x)
		VSUBPS(X14, x, x)
		VMULPS(X15, x, x)
		VMULPS(x, d, x)
		VCVTPS2PD(d, d.AsY())
		VCVTPS2PD(x, x.AsY())
		VADDPD(d.AsY(), sums8[i], sums8[i])
		VADDPD(x.AsY(), products[i], products[i])
	}
	ADDQ(Imm(64), RSI)
	ADDQ(Imm(64), RDX)
	SUBQ(Imm(16), RCX)
	JNZ(LabelRef("sixteen"))
	for i, y := range [][]VecPhysical{sums8[:4], products} {
		VADDPD(y[1], y[0], y[0])
		VADDPD(y[3], y[2], y[2])
		VADDPD(y[2], y[0], y[0])
		VEXTRACTF128(Imm(1), y[0], X8)
		VADDPD(X8, y[0].AsX(), y[0].AsX())
		VHADDPD(y[0].AsX(), y[0].AsX(), y[0].AsX())
		VMOVSD(y[0].AsX(), Mem{Base: RDI, Disp: 8 * i})
	}
	VZEROUPPER()
	RET()
}

// normGradient writes the loop of simd.NormGradient; by has its numbers.
func normGradient() {
	TEXT("normGradientAVX2", NOSPLIT|NOFRAME, "func(dst, d, x *float32, n int, by *float32)")
	Doc("normGradientAVX2 writes ((d - shift) - ((x - mean)·inverse)·slope)·factor for n numbers, a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("d"), RSI)
	Load(Param("x"), RDX)
	Load(Param("n"), RCX)
	Load(Param("by"), R8)
	mean, inverse, shift, slope, factor := Y11, Y12, Y13, Y14, Y15
	for i, y := range []VecPhysical{mean, inverse, shift, slope, factor} {
		VBROADCASTSS(Mem{Base: R8, Disp: 4 * i}, y)
	}
	strides(RCX, func(disp int, d, x VecPhysical) {
		VMOVUPS(Mem{Base: RSI, Disp: disp}, d)
		VMOVUPS(Mem{Base: RDX, Disp: disp}, x)
		VSUBPS(mean, x, x)
		VMULPS(inverse, x, x)
		VMULPS(slope, x, x)
		VSUBPS(shift, d, d)
		VSUBPS(x, d, d)
		VMULPS(factor, d, d)
		VMOVUPS(d, Mem{Base: RDI, Disp: disp})
	}, RSI, RDX, RDI)
}

// sums8 lists the registers of the partial sums.
var sums8 = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}

func total() {
	for i := range 4 {
		VXORPD(sums8[i], sums8[i], sums8[i])
	}
}

// finish ends the loop of sum and squares, and adds up the partial sums.
func finish() {
	ADDQ(Imm(64), RSI)
	SUBQ(Imm(16), RCX)
	JNZ(LabelRef("sixteen"))
	VADDPD(Y1, Y0, Y0)
	VADDPD(Y3, Y2, Y2)
	VADDPD(Y2, Y0, Y0)
	VEXTRACTF128(Imm(1), Y0, X1)
	VADDPD(X1, X0, X0)
	VHADDPD(X0, X0, X0)
	Store(X0, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// standardize computes in float64, and rounds once.
func standardize() {
	TEXT("standardizeAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, n int, mean, inverse float64)")
	Doc("standardizeAVX2 writes (x - mean)·inverse for n numbers, a multiple of 8.")
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	VBROADCASTSD(NewParamAddr("mean", 24), Y14)
	VBROADCASTSD(NewParamAddr("inverse", 32), Y15)
	halves := []VecPhysical{Y0, Y1}
	Label("eight")
	for i, y := range halves {
		VCVTPS2PD(Mem{Base: RSI, Disp: 16 * i}, y)
	}
	for i, y := range halves {
		VSUBPD(Y14, y, y)
		VMULPD(Y15, y, y)
		VCVTPD2PSY(y, y.AsX())
		VMOVUPS(y.AsX(), Mem{Base: RDI, Disp: 16 * i})
	}
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(32), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// extremeNumber keeps the extreme number of each lane, and of four vectors where there are so
// many. Its join takes a number in one register and the extreme so far in another, where it
// leaves its result; first is less extreme than all numbers.
func extremeNumber(name, doc string, first float32, join func(b, a VecPhysical)) {
	TEXT(name, NOSPLIT|NOFRAME, "func(src *float32, n int) float32")
	Doc(doc)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	most := []VecPhysical{Y0, Y1, Y2, Y3}
	for _, y := range most {
		constant(first, y)
	}
	for _, block := range []struct {
		name, next string
		vectors    int
	}{{"thirtytwo", "eight", 4}, {"eight", "end", 1}} {
		Label(block.name)
		CMPQ(RCX, Imm(uint64(8*block.vectors)))
		JLT(LabelRef(block.next))
		for i := range block.vectors {
			VMOVUPS(Mem{Base: RSI, Disp: 32 * i}, Y4)
			join(Y4, most[i])
		}
		ADDQ(Imm(uint64(32*block.vectors)), RSI)
		SUBQ(Imm(uint64(8*block.vectors)), RCX)
		JMP(LabelRef(block.name))
	}
	Label("end")
	join(Y1, Y0)
	join(Y3, Y2)
	join(Y2, Y0)
	VEXTRACTF128(Imm(1), Y0, X1)
	join(Y1, Y0)
	for _, pairs := range []uint64{0x4e, 0xb1} { // two numbers further, then one
		VPERMILPS(Imm(pairs), Y0, Y1)
		join(Y1, Y0)
	}
	Store(X0, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// skipNaN is a join that leaves out NaN: the accumulator is the second source operand, so
// it stays.
func skipNaN(pick func(...Op)) func(b, a VecPhysical) {
	return func(b, a VecPhysical) { pick(a, b, a) }
}

// transpose16 is transpose for 16-bit numbers.
func transpose16() {
	TEXT("transpose16AVX2", NOSPLIT|NOFRAME, "func(dst, src *uint16, dstStep, srcStep, blocks int)")
	Doc("transpose16AVX2 turns blocks of 8 x 8 numbers that lie side by side; the steps from row to row are in bytes.")
	dst, src, dstStep, srcStep, blocks := RDI, RSI, RDX, RCX, R8
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	Load(Param("blocks"), blocks)
	x := []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7}
	y := []VecPhysical{X8, X9, X10, X11, X12, X13, X14, X15}
	Label("block")
	MOVQ(src, R9)
	for r := range 8 {
		VMOVDQU(Mem{Base: R9}, x[r])
		ADDQ(srcStep, R9)
	}
	for r := 0; r < 8; r += 2 {
		VPUNPCKLWD(x[r+1], x[r], y[r])
		VPUNPCKHWD(x[r+1], x[r], y[r+1])
	}
	for r := 0; r < 8; r += 4 {
		VPUNPCKLDQ(y[r+2], y[r], x[r])
		VPUNPCKHDQ(y[r+2], y[r], x[r+1])
		VPUNPCKLDQ(y[r+3], y[r+1], x[r+2])
		VPUNPCKHDQ(y[r+3], y[r+1], x[r+3])
	}
	for r := range 4 {
		VPUNPCKLQDQ(x[r+4], x[r], y[2*r])
		VPUNPCKHQDQ(x[r+4], x[r], y[2*r+1])
	}
	for r := range 8 {
		VMOVDQU(y[r], Mem{Base: dst})
		ADDQ(dstStep, dst)
	}
	ADDQ(Imm(16), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// transposeAhead is the distance in bytes of what is prefetched of each row: the columns of the
// next call of simd.Transpose for these rows. The rows may be pages apart, where the processor
// prefetches nothing by itself.
const transposeAhead = 256

// transpose transposes blocks of 8 x 8 numbers: a row of blocks of src becomes a column of
// blocks of dst.
func transpose() {
	TEXT("transposeAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, dstStep, srcStep, blocks int)")
	Doc("transposeAVX2 turns blocks of 8 x 8 numbers that lie side by side; the steps from row to row are in bytes.")
	dst, src, dstStep, srcStep, blocks := RDI, RSI, RDX, RCX, R8
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("dstStep"), dstStep)
	Load(Param("srcStep"), srcStep)
	Load(Param("blocks"), blocks)
	dst3, src3 := R9, R10
	LEAQ(Mem{Base: dstStep, Index: dstStep, Scale: 2}, dst3)
	LEAQ(Mem{Base: srcStep, Index: srcStep, Scale: 2}, src3)
	y := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	z := []VecPhysical{Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
	Label("block")
	LEAQ(Mem{Base: src, Index: srcStep, Scale: 4}, R11)
	for r := range 8 {
		base := Register(src)
		if r >= 4 {
			base = R11
		}
		from := rowOf(base, srcStep, src3, r)
		VMOVUPS(from, y[r])
		from.Disp += transposeAhead
		PREFETCHT0(from)
	}
	for r := 0; r < 8; r += 2 {
		VUNPCKLPS(y[r+1], y[r], z[r])
		VUNPCKHPS(y[r+1], y[r], z[r+1])
	}
	for r := 0; r < 8; r += 4 {
		VSHUFPS(Imm(0x44), z[r+2], z[r], y[r])
		VSHUFPS(Imm(0xee), z[r+2], z[r], y[r+1])
		VSHUFPS(Imm(0x44), z[r+3], z[r+1], y[r+2])
		VSHUFPS(Imm(0xee), z[r+3], z[r+1], y[r+3])
	}
	LEAQ(Mem{Base: dst, Index: dstStep, Scale: 4}, R11)
	for r := range 4 {
		VPERM2F128(Imm(0x20), y[r+4], y[r], z[r])
		VPERM2F128(Imm(0x31), y[r+4], y[r], z[r+4])
		VMOVUPS(z[r], rowOf(dst, dstStep, dst3, r))
		VMOVUPS(z[r+4], rowOf(R11, dstStep, dst3, r))
	}
	ADDQ(Imm(32), src)
	LEAQ(Mem{Base: dst, Index: dstStep, Scale: 8}, dst)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
