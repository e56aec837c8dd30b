package simd

// Interleave writes the words of a and b by turns; dst has twice as many.
func Interleave(dst, a, b []uint32) {
	b, dst = b[:len(a)], dst[:2*len(a)]
	n := 0
	if whole := len(a) &^ 7; available && whole > 0 {
		interleaveWordsAVX2(&dst[0], &a[0], &b[0], whole)
		n = whole
	}
	for i := n; i < len(a); i++ {
		dst[2*i], dst[2*i+1] = a[i], b[i]
	}
}

// Double writes each number of src twice.
func Double(dst, src []float32) { Interleave(bitsOf(dst), bitsOf(src), bitsOf(src)) }
