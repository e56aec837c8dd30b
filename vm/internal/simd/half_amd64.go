package simd

import "golang.org/x/sys/cpu"

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
