//go:build !amd64

package gemm

func (m *Image) gathers([]piece, int) bool { return false }

func (m *Image) gather([]float32, []piece, int, int, int, int, int) {}
