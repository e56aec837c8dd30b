package gemm

import "unsafe"

// SumBlock adds up n pixels of a block in float64, each channel in the order of simd.Sum. It
// needs vectors.
func SumBlock(sums *[BlockLen]float64, src unsafe.Pointer, n int) {
	*sums = [BlockLen]float64{}
	whole := n &^ 15
	if whole > 0 {
		sumBlocks(sums, src, whole)
	}
	for i := whole; i < n; i++ {
		for lane, x := range unsafe.Slice(float(src, pixelBytes*i), BlockLen) {
			sums[lane] += float64(x)
		}
	}
}
