package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// available16 reports whether the machine has instructions to convert float16.
var available16 = available && cpu.X86.HasF16C

//go:noescape
func halvesF16C(dst *float32, src *uint16, rows, columns, dstStep, srcStep int)

//go:noescape
func brainsAVX2(dst *float32, src *uint16, rows, columns, dstStep, srcStep int)

//go:noescape
func toHalfF16C(dst *uint16, src *float32, n int)

//go:noescape
func toBrainAVX2(dst *uint16, src *float32, n int)

//go:noescape
func asHalfF16C(dst, src *float32, n int)

//go:noescape
func asBrainAVX2(dst, src *float32, n int)

//go:noescape
func halvesAVX512(dst *float32, src *uint16, n int)

//go:noescape
func brainsAVX512(dst *float32, src *uint16, n int)

//go:noescape
func toHalfAVX512(dst *uint16, src *float32, n int)

//go:noescape
func toBrainAVX512(dst *uint16, src *float32, n int)

//go:noescape
func asHalfAVX512(dst, src *float32, n int)

//go:noescape
func asBrainAVX512(dst, src *float32, n int)

//go:noescape
func joinHalvesAVX512(dst *float32, src *uint16, n int)

//go:noescape
func joinBrainsAVX512(dst *float32, src *uint16, n int)

// join16 is RoundAndAdd for n numbers, a multiple of 16.
func join16(dst *float32, src *uint16, n int, as Narrow) {
	if as == BFloat16 {
		joinBrainsAVX512(dst, src, n)
		return
	}
	joinHalvesAVX512(dst, src, n)
}

// widen16 widens n numbers, a multiple of 8.
func widen16(dst *float32, src *uint16, n int, from Narrow) {
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		whole = 0
	} else if from == BFloat16 {
		brainsAVX512(dst, src, whole)
	} else {
		halvesAVX512(dst, src, whole)
	}
	if n == whole {
		return
	}
	dst, src = forward(dst, whole), forward(src, whole)
	if from == BFloat16 {
		brainsAVX2(dst, src, 1, n-whole, 0, 0)
		return
	}
	halvesF16C(dst, src, 1, n-whole, 0, 0)
}

// round16 rounds n numbers, a multiple of 8.
func round16(dst *uint16, src *float32, n int, to Narrow) {
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		whole = 0
	} else if to == BFloat16 {
		toBrainAVX512(dst, src, whole)
	} else {
		toHalfAVX512(dst, src, whole)
	}
	if n == whole {
		return
	}
	dst, src = forward(dst, whole), forward(src, whole)
	if to == BFloat16 {
		toBrainAVX2(dst, src, n-whole)
		return
	}
	toHalfF16C(dst, src, n-whole)
}

// roundWide16 is round16, but the numbers stay float32.
func roundWide16(dst, src *float32, n int, to Narrow) {
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		whole = 0
	} else if to == BFloat16 {
		asBrainAVX512(dst, src, whole)
	} else {
		asHalfAVX512(dst, src, whole)
	}
	if n == whole {
		return
	}
	dst, src = forward(dst, whole), forward(src, whole)
	if to == BFloat16 {
		asBrainAVX2(dst, src, n-whole)
		return
	}
	asHalfF16C(dst, src, n-whole)
}

// forward is the place of an element.
func forward[T any](at *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(at), n*int(unsafe.Sizeof(*at))))
}
