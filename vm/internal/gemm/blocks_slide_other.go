//go:build !amd64

package gemm

import "unsafe"

func (p *blockSliding) run(Join, bool, []blockBox) { panic("gemm: no vectors") }

func sumBlocks(*[BlockLen]float64, unsafe.Pointer, int) { panic("gemm: no vectors") }
