package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// function writes the loop of a function of one number, for eight numbers at a time; n is
// a multiple of 8. body takes the numbers in Y0 and leaves the results there. The two
// arguments named in args are in Y14 and Y15, which body must not change.
func function(name, doc, args string, body func()) {
	TEXT(name, NOSPLIT|NOFRAME, "func(dst, src *float32, n int, "+args+" float32)")
	Doc(doc)
	Load(Param("dst"), RDI)
	Load(Param("src"), RSI)
	Load(Param("n"), RCX)
	first, second, _ := strings.Cut(args, ", ")
	VBROADCASTSS(NewParamAddr(first, 24), Y14)
	VBROADCASTSS(NewParamAddr(second, 28), Y15)
	Label("eight")
	PREFETCHT0(Mem{Base: RSI, Disp: ahead})
	VMOVUPS(Mem{Base: RSI}, Y0)
	body()
	VMOVUPS(Y0, Mem{Base: RDI})
	ADDQ(Imm(32), RSI)
	ADDQ(Imm(32), RDI)
	SUBQ(Imm(8), RCX)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// clamp keeps NaN, because x is the second source operand.
func clamp() {
	VMAXPS(Y0, Y14, Y0)
	VMINPS(Y0, Y15, Y0)
	VXORPS(Y1, Y1, Y1)
	VADDPS(Y1, Y0, Y0)
}

var constants = map[uint32]Mem{}

// constant loads a number into all lanes of y.
func constant(x float32, y VecPhysical) { bits(math.Float32bits(x), y) }

func bits(b uint32, y VecPhysical) { VBROADCASTSS(placeOf(b), y) }

// placeOf is the place of a constant of 32 bits.
func placeOf(b uint32) Mem {
	m, ok := constants[b]
	if !ok {
		m = ConstData(nameOfConstant(b), U32(b))
		constants[b] = m
	}
	return m
}

func nameOfConstant(b uint32) string { return fmt.Sprintf("c%08x", b) }

// Minimax approximations in the function's relative error.
var (
	// (exp(r) - 1 - r) / r² for |r| ≤ ln(2)/2.
	expCoefficients = []float32{0.5, 0.16666576, 0.041666374, 0.00836318, 0.0013941112}
	// erf(a) / a for a ≤ 1, in a².
	erfSmall = []float32{1.1283792, -0.37612638, 0.11283783, -0.026865445, 0.005221075, -0.0008484711, 0.00011270543, -9.680132e-06}
	// -ln(1 - erf(a)) for 1 ≤ a ≤ 4; beyond, erf is 1.
	erfLarge = []float32{
		-0.00017812636, 1.1295273, 0.63333285, 0.10827852, -0.02510179, 0.0041537904, -0.00042650974, 1.9263474e-05, 1.6969213e-07,
	}
)
