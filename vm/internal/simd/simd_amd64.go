package simd

import "golang.org/x/sys/cpu"

//go:generate go run -C ../asm . -pkg simd -out ../simd/functions_amd64.s

//go:noescape
func expAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func erfAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func clampAVX2(dst, src *float32, n int, low, high float32)

//go:noescape
func sigmoidAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func swishAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func tanhAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func geluAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func geluTanhAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func hardSigmoidAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func hardSwishAVX2(dst, src *float32, n int, scale, shift float32)

// available reports whether this machine can run the vector functions.
var available = cpu.X86.HasAVX2 && cpu.X86.HasFMA

func (v vector) run(dst, src *float32, n int, a, b float32) {
	switch v {
	case vectorExp:
		expAVX2(dst, src, n, a, b)
	case vectorErf:
		erfAVX2(dst, src, n, a, b)
	case vectorClamp:
		clampAVX2(dst, src, n, a, b)
	case vectorSigmoid:
		sigmoidAVX2(dst, src, n, a, b)
	case vectorSwish:
		swishAVX2(dst, src, n, a, b)
	case vectorTanh:
		tanhAVX2(dst, src, n, a, b)
	case vectorGelu:
		geluAVX2(dst, src, n, a, b)
	case vectorGeluTanh:
		geluTanhAVX2(dst, src, n, a, b)
	case vectorHardSigmoid:
		hardSigmoidAVX2(dst, src, n, a, b)
	case vectorHardSwish:
		hardSwishAVX2(dst, src, n, a, b)
	}
}
