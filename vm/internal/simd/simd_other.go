//go:build !amd64

package simd

const available = false

func (vector) run(*float32, *float32, int, float32, float32) { panic("simd: no vectors") }
