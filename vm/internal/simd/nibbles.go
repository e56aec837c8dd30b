package simd

// Nibbles writes (x - zero)·scale for numbers of 4 bits, of which two lie in a byte, the first in
// its low half. src has at least as many as dst.
func Nibbles(dst []float32, src []uint8, zero, scale float32) {
	src = src[:(len(dst)+1)/2]
	n := 0
	if whole := len(dst) / 2 &^ 7; available && whole > 0 {
		nibblesAVX2(&dst[0], &src[0], whole, zero, scale)
		n = 2 * whole
	}
	for i := n; i < len(dst); i++ {
		dst[i] = (float32(src[i/2]>>(4*(i%2))&15) - zero) * scale
	}
}
