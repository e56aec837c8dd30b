//go:build !amd64

package simd

const available16 = false

func halvesF16C(*float32, *uint16, int, int, int, int) { panic("simd: no vectors") }
func brainsAVX2(*float32, *uint16, int, int, int, int) { panic("simd: no vectors") }
func widen16(*float32, *uint16, int, Narrow)           { panic("simd: no vectors") }
func round16(*uint16, *float32, int, Narrow)           { panic("simd: no vectors") }
func join16(*float32, *uint16, int, Narrow)            { panic("simd: no vectors") }
func roundWide16(*float32, *float32, int, Narrow)      { panic("simd: no vectors") }
