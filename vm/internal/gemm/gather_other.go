//go:build !amd64

package gemm

import "unsafe"

func (m *Image) gathers([]piece, int) bool { return false }

func (m *Image) gather([]float32, []piece, int, int, int, int, int) {}

func (m *Image) shifts(int, int) bool { return false }

func (m *Image) packShifted([]float32, int, int, int, int) {}

func (m *ByteImage) layShifted([]byte, int, int, int) bool { return false }

func copyStrip(dst []float32, width int, src *float32, n, deep int) {
	for d := range n {
		copy(dst[d*width:(d+1)*width], unsafe.Slice(float(unsafe.Pointer(src), 4*d*deep), width))
	}
}

// Depthwise convolution needs vectors.

func weigh(*float32, int, *uintptr, *float32, int, int, float32, float32, float32) {
	panic("gemm: no vectors")
}

func dots(*[3]float32, *float32, *float32, *float32, *float32, int) { panic("gemm: no vectors") }

func largest(*float32, int, *uintptr, int) { panic("gemm: no vectors") }

func largestTap(*float32, *int32, int, *uintptr, int) { panic("gemm: no vectors") }

func spreadPlane(_, _ unsafe.Pointer, _, _, _, _, _, _, _ int) { panic("gemm: no vectors") }

func unspread(_, _ unsafe.Pointer, _, _, _ int) { panic("gemm: no vectors") }

func (d *Depthwise) direct(_, _, _ unsafe.Pointer, _ float32) { panic("gemm: no vectors") }

func (d *Depthwise) directBytes(_, _ unsafe.Pointer, _ *ByteChannel) { panic("gemm: no vectors") }
