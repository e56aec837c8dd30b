//go:build !amd64

package gemm

func (p *blockPanel) run() { panic("gemm: no micro-kernel for images in blocks") }
