package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../asm . -pkg gemm

//go:noescape
func panelAVX2(p *panel)

//go:noescape
func panelAVX512(p *panel)

// The offsets that package asm relies on: any other offset does not compile.
const _ = -(unsafe.Offsetof(panel{}.c) ^ 16 | unsafe.Offsetof(panel{}.rows) ^ 24 | unsafe.Offsetof(panel{}.aStrip) ^ 40 |
	unsafe.Offsetof(panel{}.cRow) ^ 72 | unsafe.Offsetof(panel{}.colBias) ^ 96 | unsafe.Offsetof(panel{}.columns) ^ 104 |
	unsafe.Offsetof(panel{}.mask) ^ 112 | unsafe.Offsetof(panel{}.alpha) ^ 120 | unsafe.Offsetof(panel{}.high) ^ 132 |
	unsafe.Offsetof(panel{}.zero) ^ 136 | unsafe.Offsetof(panel{}.words) ^ 140 | unsafe.Offsetof(panel{}.flip) ^ 142 | unsafe.Offsetof(panel{}.next) ^ 144 | unsafe.Offsetof(panel{}.passes) ^ 152 | unsafe.Offsetof(ByteRows{}.Scales) ^ 960)

//go:noescape
func maker() uint32

// intel reports whether this is a processor of Intel's, where some micro-kernels for AVX-512
// differ: they prefetch what follows and, of bytes, multiply two strips at once. That was measured on
// Ice Lake: a product of 128 rows with a B in memory takes 0.83 of the time, and one with a B in the
// second-level cache 0.95.
var intel = maker() == 'G'|'e'<<8|'n'<<16|'u'<<24

func best() level {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return plain
}

// lanes[16-n:] is the mask of n columns.
var lanes = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// run calls the micro-kernel of level l.
func (p *panel) run(l level) {
	switch l {
	case avx512:
		p.mask = 1<<p.columns - 1
		panelAVX512(p)
	case avx2:
		p.mask = uint64(uintptr(unsafe.Pointer(&lanes[16-p.columns])))
		panelAVX2(p)
	default:
		panelPlain(p)
	}
}
