package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func pairsAVX2(p *panel)

//go:noescape
func pairsVNNI(p *panel)

//go:noescape
func quadsTwoVNNI(p *panel)

//go:noescape
func quadsVNNI(p *panel)

//go:noescape
func quadRowsAVX2(dst, src *uint8, count, step int, flip uint8)

//go:noescape
func quadTwoRowsAVX2(dst, next, src *uint8, count, step, ahead int, flip uint8)

//go:noescape
func flipRowAVX2(dst, src *uint8, n int, flip, sign uint8) int

// Quads reports whether this machine multiplies bytes without widening them: operands may
// then be packed by [PackQuadRows] or [PackQuadColumns].
func Quads() bool { return vnni() }

// runQuads calls the micro-kernel for quads.
func (p *panel) runQuads() {
	p.mask = 1<<p.columns - 1
	quadsVNNI(p)
}

// twoQuads reports whether a micro-kernel multiplies two strips of quads at once, which waits less for
// the numbers of A.
func twoQuads() bool { return intel && vnni() }

// runTwoQuads calls it. B's strips lie bDeep bytes apart.
func (p *panel) runTwoQuads() {
	p.mask = 1<<p.columns - 1
	quadsTwoVNNI(p)
}

// vnni reports whether the micro-kernel with VNNI is in use.
func vnni() bool { return chosen == avx512 && cpu.X86.HasAVX512VNNI }

// pairsHeight is the number of rows of C that the micro-kernel in use computes.
func pairsHeight() int {
	if vnni() {
		return integerTwice
	}
	return integerRows
}

//go:noescape
func widenAVX2(dst *int16, src *uint8, n int, flip uint8, zero int16)

//go:noescape
func interleaveAVX2(dst *int16, src *uint8, count, step int, zeros *int16, flip uint8)

// runPairs calls the micro-kernel for integers.
func (p *panel) runPairs() {
	if chosen == plain {
		pairsPlain(p)
		return
	}
	if vnni() {
		p.mask = 1<<p.columns - 1
		pairsVNNI(p)
		return
	}
	p.mask = uint64(uintptr(unsafe.Pointer(&lanes[16-p.columns])))
	pairsAVX2(p)
}

// widenRow converts as many of n bytes to int16 as fill whole vectors, and returns their
// number.
func widenRow(dst []int16, from unsafe.Pointer, n int, flip byte, zero int16) int {
	if chosen == plain {
		widenPlain(dst, from, n, flip, zero)
		return n
	}
	n &^= 15
	if n > 0 {
		widenAVX2(&dst[0], (*uint8)(from), n, flip, zero)
	}
	return n
}

// pairRows interleaves 2·count rows to pairs.
func pairRows(dst []int16, from unsafe.Pointer, count, step int, zeros *[2 * integerColumns]int16, flip byte) {
	if chosen == plain {
		pairRowsPlain(dst, from, count, step, zeros, flip)
		return
	}
	interleaveAVX2(&dst[0], (*uint8)(from), count, step, &zeros[0], flip)
}
