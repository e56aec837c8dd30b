package simd

import (
	"math"
	"testing"
)

// The inverse functions of the circle are within two units in the last place of float64's, on
// all of their domain, and NaN beyond it; the sign of -0 stays.
func TestInverseFunctions(t *testing.T) {
	for _, f := range []struct {
		name string
		got  func(dst, src []float32)
		want func(float64) float64
	}{{"Asin", Asin, math.Asin}, {"Acos", Acos, math.Acos}, {"Atan", Atan, math.Atan}} {
		src := values()
		for b := uint32(0); b < 0x7f800000; b += 0x3ffd {
			src = append(src, math.Float32frombits(b), -math.Float32frombits(b))
		}
		for _, near := range []float32{0.5, 1, math.Sqrt2 - 1, math.Sqrt2 + 1} {
			for _, to := range []float32{0, 4} {
				for x, k := near, 0; k < 50; k++ {
					src = append(src, x, -x)
					x = math.Nextafter32(x, to)
				}
			}
		}
		got := make([]float32, len(src))
		f.got(got, src)
		worst := 0.0
		for i, x := range src {
			g, w := float64(got[i]), f.want(float64(x))
			if math.IsNaN(g) && math.IsNaN(w) || g == w && math.Signbit(g) == math.Signbit(w) {
				continue
			}
			off := math.Abs(g-w) / ulp(float32(w))
			if worst = max(worst, off); !(off <= 2) {
				t.Fatalf("%s of %v: got %v, want %v", f.name, x, g, w)
			}
		}
		t.Logf("%s: off by at most %.2f units in the last place", f.name, worst)
	}
}
