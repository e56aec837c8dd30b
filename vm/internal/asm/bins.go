package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of simd.Bins and simd.Samples, which bins_amd64.go checks at compile
// time.
const (
	offBinsDst       = 0
	offBinsPlane     = 8
	offBinsSamples   = 16
	offBinsRows      = 24
	offBinsEach      = 32
	offBinsPlanes    = 40
	offBinsPlaneStep = 48
	offBinsDstStep   = 56
	offBinsRowStep   = 64
	offBinsRead      = 72
	offBinsWrite     = 76
	offBinsTotal     = 80

	offSamplesTop     = 0
	offSamplesBottom  = 8
	offSamplesLeft    = 16
	offSamplesRight   = 80
	offSamplesWeights = 144
	samplesBytes      = 400
)

// bins computes simd.Bins: up to 32 elements of two rows are in four registers, from which each
// sample of 16 bins is picked.
func bins() {
	TEXT("binsAVX512", NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc("binsAVX512 writes the means of the samples of bins, plane by plane.")
	p, dst, plane, planes, samples, to, rows, each, at := RDI, R8, R9, R10, R11, RBX, RCX, RDX, RAX
	Load(Param("p"), p)
	MOVQ(Mem{Base: p, Disp: offBinsDst}, dst)
	MOVQ(Mem{Base: p, Disp: offBinsPlane}, plane)
	MOVQ(Mem{Base: p, Disp: offBinsPlanes}, planes)
	KMOVW(Mem{Base: p, Disp: offBinsRead}, K1)
	KMOVW(Mem{Base: p, Disp: offBinsRead + 2}, K2)
	KMOVW(Mem{Base: p, Disp: offBinsWrite}, K3)
	VBROADCASTSS(Mem{Base: p, Disp: offBinsTotal}, Z15)
	Label("plane")
	MOVQ(Mem{Base: p, Disp: offBinsSamples}, samples)
	MOVQ(Mem{Base: p, Disp: offBinsRows}, rows)
	MOVQ(dst, to)
	Label("row")
	MOVQ(Mem{Base: p, Disp: offBinsEach}, each)
	VPXORD(Z0, Z0, Z0)
	Label("sample")
	for i, off := range []int{offSamplesTop, offSamplesBottom} {
		first, second := []VecPhysical{Z1, Z3}[i], []VecPhysical{Z2, Z4}[i]
		MOVQ(Mem{Base: samples, Disp: off}, at)
		VMOVUPS_Z(Mem{Base: plane, Index: at, Scale: 1}, K1, first)
		VMOVUPS_Z(Mem{Base: plane, Index: at, Scale: 1, Disp: 64}, K2, second)
		for k, side := range []int{offSamplesLeft, offSamplesRight} {
			n := 2*i + k
			picked := []VecPhysical{Z5, Z6, Z7, Z8}[n]
			VMOVDQU32(Mem{Base: samples, Disp: side}, picked)
			VPERMI2PS(second, first, picked)
			VMULPS(Mem{Base: samples, Disp: offSamplesWeights + 64*n}, picked, picked)
			if n > 0 {
				VADDPS(picked, Z5, Z5)
			}
		}
	}
	VADDPS(Z5, Z0, Z0)
	ADDQ(U32(samplesBytes), samples)
	DECQ(each)
	JNZ(LabelRef("sample"))
	VDIVPS(Z15, Z0, Z0)
	VMOVUPS(Z0, K3, Mem{Base: to})
	ADDQ(Mem{Base: p, Disp: offBinsRowStep}, to)
	DECQ(rows)
	JNZ(LabelRef("row"))
	ADDQ(Mem{Base: p, Disp: offBinsDstStep}, dst)
	ADDQ(Mem{Base: p, Disp: offBinsPlaneStep}, plane)
	DECQ(planes)
	JNZ(LabelRef("plane"))
	VZEROUPPER()
	RET()
}
