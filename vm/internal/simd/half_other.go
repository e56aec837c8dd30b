//go:build !amd64

package simd

const available16 = false

func halvesF16C(*float32, *uint16, int, int, int, int) { panic("simd: no vectors") }
func brainsAVX2(*float32, *uint16, int, int, int, int) { panic("simd: no vectors") }
func toHalfF16C(*uint16, *float32, int)                { panic("simd: no vectors") }
func toBrainAVX2(*uint16, *float32, int)               { panic("simd: no vectors") }
func asHalfF16C(*float32, *float32, int)               { panic("simd: no vectors") }
func asBrainAVX2(*float32, *float32, int)              { panic("simd: no vectors") }
