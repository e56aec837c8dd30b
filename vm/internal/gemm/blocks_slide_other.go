//go:build !amd64

package gemm

func (p *blockSliding) run(Join, []blockBox) { panic("gemm: no vectors") }
