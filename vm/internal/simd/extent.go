package simd

// Extent returns the minimum and the maximum of 0 and some numbers; it leaves out NaN.
func Extent(x []float32) (low, high float32) {
	whole := 0
	if available && len(x) >= 32 {
		whole = len(x) &^ 31
		var bounds [16]float32
		extentAVX2(&bounds[0], &x[0], whole)
		for i := range 8 {
			low, high = min(low, bounds[i]), max(high, bounds[8+i])
		}
	}
	for _, v := range x[whole:] {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	return low, high
}
