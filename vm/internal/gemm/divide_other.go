//go:build !amd64

package gemm

import "unsafe"

type halving struct {
	src, even, odd                 unsafe.Pointer
	masks                          [2]*[8]int32
	rows, srcStep, dstStep, blocks int
	evenZero, oddZero              int
}

var spans [9][9][8]int32

func (*halving) run() { panic("gemm: no vectors") }
