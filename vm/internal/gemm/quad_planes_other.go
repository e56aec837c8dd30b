//go:build !amd64

package gemm

import "unsafe"

func quadPlanes() bool { return false }

// Planes is never called: Prepare is false.
func (d *QuadPlanes) Planes(out, in, scratch unsafe.Pointer, c *QuadChannels) {
	panic("gemm: no quads")
}
