package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// turnedLen is how many 16-bit numbers are widened at once before they are moved: they stay in
// the first-level cache.
const turnedLen = 1 << 9

// transposeHalf is simd.Transpose from 16-bit numbers.
func transposeHalf(dst *float32, src *uint16, dstStep, srcStep, rows, columns int, f Format) {
	var wide [turnedLen]float32
	for c := 0; c < columns; c += turnedLen / 8 {
		n := min(turnedLen/8, columns-c)
		together, close := 8, srcStep <= turnedLen/8
		if close { // what lies between the first row and the last is widened, too
			together = max(turnedLen/srcStep&^7, 8)
		}
		for r := 0; r < rows; r += together {
			count := min(together, rows-r)
			to := (*float32)(unsafe.Add(unsafe.Pointer(dst), 4*(c*dstStep+r)))
			from := (*uint16)(unsafe.Add(unsafe.Pointer(src), 2*(r*srcStep+c)))
			if close {
				simd.Widen(wide[:(count-1)*srcStep+n], unsafe.Slice(from, (count-1)*srcStep+n), f.narrow())
				simd.Transpose(to, &wide[0], dstStep, srcStep, count, n)
				continue
			}
			simd.WidenRows(&wide[0], from, count, n, turnedLen/8, srcStep, f.narrow())
			simd.Transpose(to, &wide[0], dstStep, turnedLen/8, count, n)
		}
	}
}

// widenEach widens 16-bit numbers that lie step apart.
func widenEach(dst []float32, at unsafe.Pointer, step int, f Format) {
	var wide [turnedLen / 4]float32
	each := (len(wide)-1)/step + 1
	for i := 0; i < len(dst); i += each {
		n := min(each, len(dst)-i)
		run := wide[:(n-1)*step+1]
		simd.Widen(run, unsafe.Slice((*uint16)(unsafe.Add(at, 2*i*step)), len(run)), f.narrow())
		for j, to := 0, dst[i:i+n]; j < n; j++ {
			to[j] = run[j*step]
		}
	}
}
