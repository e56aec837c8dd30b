package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C ../asm . -pkg simd

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
func logAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func sinAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func cosAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func asinAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func acosAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func atanAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func tanAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func geluAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func geluTanhAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func hardSigmoidAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func addTwoAVX2(dst, src *float32, n int, a, b float32)

//go:noescape
func hardSwishAVX2(dst, src *float32, n int, scale, shift float32)

//go:noescape
func expAVX512(dst, src *float32, n int, scale, shift float32)

//go:noescape
func sigmoidAVX512(dst, src *float32, n int, scale, shift float32)

//go:noescape
func erfAVX512(dst, src *float32, n int, scale, shift float32)

//go:noescape
func tanhAVX512(dst, src *float32, n int, scale, shift float32)

//go:noescape
func swishAVX512(dst, src *float32, n int, scale, shift float32)

//go:noescape
func geluAVX512(dst, src *float32, n int, scale, shift float32)

// runWide applies a function that has a form for sixteen numbers at a time, and returns
// to how many of the n numbers.
func (v vector) runWide(dst, src *float32, n int, a, b float32) int {
	whole := n &^ 15
	if wide < 16 || whole == 0 {
		return 0
	}
	switch v {
	case vectorExp:
		expAVX512(dst, src, whole, a, b)
	case vectorSigmoid:
		sigmoidAVX512(dst, src, whole, a, b)
	case vectorErf:
		erfAVX512(dst, src, whole, a, b)
	case vectorTanh:
		tanhAVX512(dst, src, whole, a, b)
	case vectorSwish:
		swishAVX512(dst, src, whole, a, b)
	case vectorGelu:
		geluAVX512(dst, src, whole, a, b)
	default:
		return 0
	}
	return whole
}

// available reports whether this machine can run the vector functions.
var available = cpu.X86.HasAVX2 && cpu.X86.HasFMA

func (v vector) run(dst, src *float32, n int, a, b float32) {
	if done := v.runWide(dst, src, n, a, b); done > 0 {
		if n -= done; n == 0 {
			return // an address behind the last number must not be computed
		}
		dst, src = (*float32)(unsafe.Add(unsafe.Pointer(dst), 4*done)), (*float32)(unsafe.Add(unsafe.Pointer(src), 4*done))
	}
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
	case vectorLog:
		logAVX2(dst, src, n, a, b)
	case vectorSin:
		sinAVX2(dst, src, n, a, b)
	case vectorCos:
		cosAVX2(dst, src, n, a, b)
	case vectorAsin:
		asinAVX2(dst, src, n, a, b)
	case vectorAcos:
		acosAVX2(dst, src, n, a, b)
	case vectorAtan:
		atanAVX2(dst, src, n, a, b)
	case vectorTan:
		tanAVX2(dst, src, n, a, b)
	case vectorGelu:
		geluAVX2(dst, src, n, a, b)
	case vectorGeluTanh:
		geluTanhAVX2(dst, src, n, a, b)
	case vectorHardSigmoid:
		hardSigmoidAVX2(dst, src, n, a, b)
	case vectorHardSwish:
		hardSwishAVX2(dst, src, n, a, b)
	case vectorAddTwo:
		addTwoAVX2(dst, src, n, a, b)
	case vectorAffine:
		affineAVX2(dst, src, n, a, b)
	}
}
