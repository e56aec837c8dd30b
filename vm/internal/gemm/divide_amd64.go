package gemm

import "unsafe"

// halving holds the arguments of the function that divides rows into their even and odd
// elements. Package asm addresses the fields by their offsets.
type halving struct {
	src, even, odd    unsafe.Pointer
	masks             [2]*[8]int32 // of the last sixteen elements of a row
	rows              int
	srcStep, dstStep  int // bytes
	blocks            int // of sixteen elements of a row, without the last
	evenZero, oddZero int // bytes from the beginning of a row in a plane to the zeros behind it
}

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(halving{}.masks) ^ 24 | unsafe.Offsetof(halving{}.rows) ^ 40 | unsafe.Offsetof(halving{}.blocks) ^ 64 |
	unsafe.Offsetof(halving{}.evenZero) ^ 72 | unsafe.Offsetof(halving{}.oddZero) ^ 80)

//go:noescape
func halvesAVX2(p *halving)

func (p *halving) run() { halvesAVX2(p) }
