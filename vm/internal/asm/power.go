package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wide holds four numbers in float64: the base and then its logarithm, the exponent, and three
// for intermediate results.
type wide struct{ x, y, a, b, c VecPhysical }

// power writes the loop of a^b as 2^(b·log2(a)) in float64, for eight numbers at a time. The
// logarithm of base 2 of a = 2^k·z, with z between √½ and √2, is k + 2·atanh(s)/ln(2) with
// s = (z - 1)/(z + 1); its relative error is below 2^-38, and that of the power of 2 below 2^-31.
// So the result is off by hardly more than half a unit in the last place.
func power() {
	TEXT("powerAVX2", NOSPLIT|NOFRAME, "func(dst, a, b *float32, n, bStep int) int")
	Doc("powerAVX2 writes a^b for n numbers, a multiple of 8, and returns 0 if they are all ordinary: a is a positive normal number, b is finite, and not 2 or 3.")
	dst, a, b, n, bStep, mask := RDI, RSI, RDX, RCX, R8, RAX
	Load(Param("dst"), dst)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("n"), n)
	Load(Param("bStep"), bStep)
	unusual := Y15
	VPXOR(unusual, unusual, unusual)
	var logarithm, powerOf2 []float64
	for k := range 7 {
		logarithm = append(logarithm, 2/math.Ln2/float64(2*k+1))
	}
	term := 1.0
	for k := range 9 {
		if k > 0 {
			term *= math.Ln2 / float64(k)
		}
		powerOf2 = append(powerOf2, term)
	}
	halves := []wide{{Y4, Y5, Y6, Y7, Y8}, {Y9, Y10, Y11, Y12, Y13}}
	c := Y14
	Label("eight")
	PREFETCHT0(Mem{Base: a, Disp: ahead})
	VMOVUPS(Mem{Base: a}, Y0)
	VMOVUPS(Mem{Base: b}, Y1)
	// A normal number above 0 is at least 0x00800000 and below 0x7f800000: as a signed number
	// that is less than one comparison, after a shift.
	bits(0x7f800000, c)
	VPADDD(c, Y0, Y2)
	bits(0xfeffffff, c)
	VPCMPGTD(c, Y2, Y2)
	VPOR(Y2, unusual, unusual)
	bits(0x7fffffff, c)
	VPAND(c, Y1, Y2)
	bits(0x7f7fffff, c)
	VPCMPGTD(c, Y2, Y2)
	VPOR(Y2, unusual, unusual)
	for _, small := range []float32{2, 3} {
		constant(small, c)
		VCMPPS(Imm(0), c, Y1, Y2)
		VPOR(Y2, unusual, unusual)
	}
	bits(math.Float32bits(math.Sqrt2/2), c)
	VPSUBD(c, Y0, Y2)
	VPSRAD(Imm(23), Y2, Y2) // k
	VPSLLD(Imm(23), Y2, Y3)
	VPSUBD(Y3, Y0, Y0) // z
	each := func(f func(v wide)) {
		for _, v := range halves {
			f(v)
		}
	}
	for i, v := range halves {
		if i == 1 {
			for _, y := range []VecPhysical{Y0, Y1, Y2} {
				VEXTRACTF128(Imm(1), y, y.AsX())
			}
		}
		VCVTPS2PD(X0, v.x)
		VCVTPS2PD(X1, v.y)
		VCVTDQ2PD(X2, v.c)
	}
	double(1, c)
	each(func(v wide) {
		VADDPD(c, v.x, v.a)
		VSUBPD(c, v.x, v.x)
		VDIVPD(v.a, v.x, v.x) // s
		VMULPD(v.x, v.x, v.a)
	})
	horner := func(coefficients []float64, x func(v wide) VecPhysical) {
		for k := len(coefficients) - 1; k >= 0; k-- {
			double(coefficients[k], c)
			each(func(v wide) {
				if k == len(coefficients)-1 {
					VMOVAPD(c, v.b)
					return
				}
				VFMADD213PD(c, x(v), v.b)
			})
		}
	}
	horner(logarithm, func(v wide) VecPhysical { return v.a })
	each(func(v wide) {
		VFMADD213PD(v.c, v.b, v.x) // log2(a)
		VMULPD(v.y, v.x, v.x)
	})
	double(129, c)
	each(func(v wide) { VMINPD(c, v.x, v.x) })
	double(-151, c)
	each(func(v wide) {
		VMAXPD(c, v.x, v.x)
		VROUNDPD(Imm(8), v.x, v.a)
		VSUBPD(v.a, v.x, v.x)
	})
	horner(powerOf2, func(v wide) VecPhysical { return v.x })
	each(func(v wide) {
		VCVTPD2DQY(v.a, v.a.AsX())
		VPMOVSXDQ(v.a.AsX(), v.a)
		VPSLLQ(Imm(52), v.a, v.a)
		VPADDQ(v.a, v.b, v.b)
		VCVTPD2PSY(v.b, v.b.AsX())
	})
	VINSERTF128(Imm(1), halves[1].b.AsX(), halves[0].b, Y0)
	VMOVUPS(Y0, Mem{Base: dst})
	ADDQ(Imm(32), a)
	ADDQ(Imm(32), dst)
	ADDQ(bStep, b)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VMOVMSKPS(unusual, EAX)
	Store(mask, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

var doubles = map[uint64]Mem{}

// double loads a number of 64 bits into all lanes of y.
func double(x float64, y VecPhysical) {
	b := math.Float64bits(x)
	m, ok := doubles[b]
	if !ok {
		m = ConstData(fmt.Sprintf("d%016x", b), U64(b))
		doubles[b] = m
	}
	VBROADCASTSD(m, y)
}

// tangent writes the loop of tan(x) in float64: x less the nearest multiple of π/2 goes into the
// series of sine and cosine, whose quotient it is; of an odd multiple, the reciprocal with the
// other sign. The relative error is below 2^-31 for x up to 8192.
func tangent() {
	TEXT("tanAVX2", NOSPLIT|NOFRAME, "func(dst, src *float32, n int, scale, shift float32)")
	Doc("tanAVX2 writes tan(x), for x up to 8192.")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	halves := []wide{{Y0, Y1, Y2, Y3, Y4}, {Y5, Y6, Y7, Y8, Y9}}
	c := Y15
	each := func(f func(v wide)) {
		for _, v := range halves {
			f(v)
		}
	}
	Label("eight")
	PREFETCHT0(Mem{Base: src, Disp: ahead})
	for i, v := range halves {
		VCVTPS2PD(Mem{Base: src, Disp: 16 * i}, v.x)
	}
	double(2/math.Pi, c)
	each(func(v wide) {
		VMULPD(c, v.x, v.y)
		VROUNDPD(Imm(8), v.y, v.y)
	})
	for _, part := range []float64{-0x1.921fb544p0, -0x1.0b4611a626331p-34} { // of π/2
		double(part, c)
		each(func(v wide) { VFMADD231PD(c, v.y, v.x) })
	}
	each(func(v wide) { VMULPD(v.x, v.x, v.a) })
	series := func(first int, to func(v wide) VecPhysical) {
		for k := first + 10; k >= first; k -= 2 {
			term := 1.0 / math.Gamma(float64(k+1))
			if k/2%2 == 1 {
				term = -term
			}
			double(term, c)
			each(func(v wide) {
				if k == first+10 {
					VMOVAPD(c, to(v))
					return
				}
				VFMADD213PD(c, v.a, to(v))
			})
		}
	}
	series(1, func(v wide) VecPhysical { return v.b })
	series(0, func(v wide) VecPhysical { return v.c })
	each(func(v wide) {
		VMULPD(v.x, v.b, v.b) // the sine
		VCVTPD2DQY(v.y, v.y.AsX())
		VPMOVSXDQ(v.y.AsX(), v.y)
		VPSLLQ(Imm(63), v.y, v.y)
		VBLENDVPD(v.y, v.c, v.b, v.x)
		VBLENDVPD(v.y, v.b, v.c, v.c)
		VDIVPD(v.c, v.x, v.x)
		VXORPD(v.y, v.x, v.x)
		VCVTPD2PSY(v.x, v.x.AsX())
	})
	for i, v := range halves {
		VMOVUPS(v.x.AsX(), Mem{Base: dst, Disp: 16 * i})
	}
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}
