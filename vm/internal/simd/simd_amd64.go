package simd

import "golang.org/x/sys/cpu"

//go:generate go run -C ../asm . -pkg simd -out ../simd/functions_amd64.s

//go:noescape
func expAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func erfAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func clampAVX2(dst, src *float32, n int, low, high float32)

// available reports whether the vectors run on this machine.
var available = cpu.X86.HasAVX2 && cpu.X86.HasFMA

func (v vector) run(dst, src *float32, n int, scale, shift float32) {
	switch v {
	case vectorErf:
		erfAVX2(dst, src, n, scale, shift)
	case vectorClamp:
		clampAVX2(dst, src, n, scale, shift)
	default:
		expAVX2(dst, src, n, scale, shift)
	}
}
