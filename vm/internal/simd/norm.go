package simd

// SquaresAround adds up the squares of x - mean in float64, where the differences are
// rounded to float32 first, in the order of Squares.
func SquaresAround(x []float32, mean float32) float64 {
	sum := 0.0
	if n := len(x) &^ 15; available && n > 0 {
		sum = squaresAroundAVX2(&x[0], n, mean)
		x = x[n:]
	}
	for _, v := range x {
		d := float64(v - mean)
		sum += d * d
	}
	return sum
}

// NormSums adds up d, and the products of d with (x - mean)·inverse, in the order of Sum.
// The sums are in float64, and all else is rounded to float32.
func NormSums(d, x []float32, mean, inverse float32) (sum, product float64) {
	x = x[:len(d)]
	if n := len(d) &^ 15; available && n > 0 {
		var sums [2]float64
		normSumsAVX2(&sums[0], &d[0], &x[0], n, mean, inverse)
		sum, product = sums[0], sums[1]
		d, x = d[n:], x[n:]
	}
	for i, v := range d {
		sum += float64(v)
		product += float64(v * float32((x[i]-mean)*inverse))
	}
	return sum, product
}

// NormGradient has the numbers of a channel in the gradient of its normalization.
type NormGradient struct{ Mean, Inverse, Shift, Slope, Factor float32 }

// Write writes ((d - Shift) - ((x - Mean)·Inverse)·Slope)·Factor, where each operation
// rounds to float32; dst may be d or x.
func (g *NormGradient) Write(dst, d, x []float32) {
	d, x = d[:len(dst)], x[:len(dst)]
	n := 0
	if whole := len(dst) &^ 7; available && whole > 0 {
		normGradientAVX2(&dst[0], &d[0], &x[0], whole, &g.Mean)
		n = whole
	}
	for i := n; i < len(dst); i++ {
		normal := float32((x[i] - g.Mean) * g.Inverse)
		dst[i] = float32((d[i]-g.Shift)-float32(normal*g.Slope)) * g.Factor
	}
}
