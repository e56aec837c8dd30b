package simd

// Truncate cuts numbers towards 0; NaN and those out of range become the least integer.
func Truncate(dst []int32, src []float32) {
	dst = dst[:len(src)]
	n := 0
	if whole := len(src) &^ 7; available && whole > 0 {
		truncateAVX2(&dst[0], &src[0], whole)
		n = whole
	}
	for i := n; i < len(src); i++ {
		dst[i] = truncated(src[i])
	}
}

// FromIntegers rounds integers to the nearest float32.
func FromIntegers(dst []float32, src []int32) {
	dst = dst[:len(src)]
	n := 0
	if whole := len(src) &^ 7; available && whole > 0 {
		fromIntegersAVX2(&dst[0], &src[0], whole)
		n = whole
	}
	for i := n; i < len(src); i++ {
		dst[i] = float32(src[i])
	}
}

// TruncateBytes writes the low bytes of what Truncate does.
func TruncateBytes(dst []uint8, src []float32) {
	dst = dst[:len(src)]
	n := 0
	if whole := len(src) &^ 31; available && whole > 0 {
		truncateBytesAVX2(&dst[0], &src[0], whole)
		n = whole
	}
	for i := n; i < len(src); i++ {
		dst[i] = uint8(truncated(src[i]))
	}
}

func truncated(x float32) int32 {
	if x >= -1<<31 && x < 1<<31 {
		return int32(x)
	}
	return -1 << 31
}
