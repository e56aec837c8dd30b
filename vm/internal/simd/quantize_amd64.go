package simd

import "golang.org/x/sys/cpu"

// wide is the number of values that the widest conversions to bytes take at a time.
var wide = func() int {
	if available && cpu.X86.HasAVX512F {
		return 16
	}
	return 8
}()

//go:noescape
func quantizeAVX512(dst *uint8, src *float32, n int, scale, low, high float32, zero int32)

//go:noescape
func requantizeAVX512(dst *uint8, src *int32, n int, scale, low, high float32, zero, bias int32)

//go:noescape
func quantizeAVX2(dst *uint8, src *float32, n int, scale, low, high float32, zero int32)

//go:noescape
func requantizeAVX2(dst *uint8, src *int32, n int, scale, low, high float32, zero, bias int32)

//go:noescape
func requantizeColumnsAVX2(dst *uint8, src, biases *int32, scales *float32, n, rows, dstStep, srcStep int, low, high float32, zero int32)

//go:noescape
func dequantizeAVX2(dst *float32, src *uint8, n int, scale float32, zero int32, flip uint8)

//go:noescape
func extentAVX2(bounds, src *float32, n int)

//go:noescape
func lookUpAVX2(dst, src *uint8, n int, rows *uint8)
