//go:build !amd64

package gemm

import "unsafe"

func (p *panel) runPairs() { pairsPlain(p) }

func widenRow(dst []int16, from unsafe.Pointer, n int, flip byte, zero int16) int {
	widenPlain(dst, from, n, flip, zero)
	return n
}

func pairRows(dst []int16, from unsafe.Pointer, count, step int, zeros *[2 * integerColumns]int16, flip byte) {
	pairRowsPlain(dst, from, count, step, zeros, flip)
}

func pairsHeight() int { return integerRows }

// Quads reports that bytes are widened before they are multiplied.
func Quads() bool { return false }

func twoQuads() bool { return false }

func (p *panel) runTwoQuads() { panic("gemm: no quads") }

func (p *panel) runQuads() { panic("gemm: no quads") }

func quadTwoRowsAVX2(*uint8, *uint8, *uint8, int, int, int, uint8) { panic("gemm: no quads") }

func quadRowsAVX2(*uint8, *uint8, int, int, uint8) { panic("gemm: no quads") }

func flipRowAVX2(*uint8, *uint8, int, uint8, uint8) int { panic("gemm: no quads") }
