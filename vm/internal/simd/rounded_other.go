//go:build !amd64

package simd

func rounded16(Operation, *float32, *float32, *float32, int, Narrow) { panic("simd: no vectors") }
func halves16(Operation, *uint16, *uint16, *uint16, int, Narrow)     { panic("simd: no vectors") }
