package kernel

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// specialNumbers are float32 numbers of all magnitudes, and those near limits of the kernels.
func specialNumbers() []float32 {
	list := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 8191.9, 8192, 8193, 0.5, 89.41, 89.42, 127.9, 128, 200}
	for b := uint32(0); b < 0x7f800000; b += 0x3ffd {
		list = append(list, math.Float32frombits(b), -math.Float32frombits(b))
	}
	for k := range 6000 {
		list = append(list, float32(float64(k)*math.Pi/2), float32(k)/64)
	}
	return list
}

// The functions differ from those of float64 by hardly more than half a unit in the last place.
func TestFunctionsInFloat64(t *testing.T) {
	for _, f := range []struct {
		name string
		row  func(d, a []float32)
		want func(x float64) float64
	}{
		{"Tan", simd.Tan, math.Tan},
		{"Sinh", hyperbolicSines, math.Sinh},
		{"Cosh", hyperbolicCosines, math.Cosh},
		{"Asinh", inverseHyperbolicSines, math.Asinh},
		{"Acosh", inverseHyperbolicCosines, math.Acosh},
		{"Atanh", inverseHyperbolicTangents, math.Atanh},
	} {
		list := specialNumbers()
		got := make([]float32, len(list))
		f.row(got, list)
		for i, x := range list {
			g, w := float64(got[i]), f.want(float64(x))
			if g != g && w != w || g == float64(float32(w)) && math.Signbit(g) == math.Signbit(w) {
				continue
			}
			size := float32(math.Abs(w))
			if unit := float64(math.Nextafter32(size, float32(math.Inf(1)))) - float64(size); !(math.Abs(g-w) <= 0.51*unit) || w == 0 {
				t.Fatalf("%s of %v: got %v, want %v", f.name, x, g, w)
			}
		}
	}
}

// Remainders are exact.
func TestRemainders(t *testing.T) {
	list := specialNumbers()
	var some []float32
	for i := 0; i < len(list); i += 331 {
		some = append(some, list[i])
	}
	some = append(some, list[:8]...)
	some = append(some, 3, -3, 1<<28, 1<<27+1, -1<<28, 7)
	for _, truncated := range []bool{false, true} {
		l := realRemainders(truncated)
		got, one := make([]float32, len(some)), make([]float32, 1)
		for _, b := range some {
			repeated := make([]float32, len(some))
			fill(repeated, b)
			l.vv(got, some, repeated)
			for i, a := range some {
				want := float32(remainder(float64(a), float64(b), truncated))
				l.vs(one, some[i:i+1], b)
				vs := one[0]
				l.sv(one, a, repeated[:1])
				for _, g := range []float32{got[i], vs, one[0]} {
					if math.Float32bits(g) != math.Float32bits(want) && (g == g || want == want) {
						t.Fatalf("%v mod %v (truncated %v): got %v, want %v", a, b, truncated, g, want)
					}
				}
			}
		}
	}
}

// Each sign of infinity is told from the other, and from NaN, in a list of any length.
func TestInfinities(t *testing.T) {
	list := specialNumbers()
	for n := range 300 {
		for k := range 4 {
			negative, positive := k&1 != 0, k&2 != 0
			a, d := make([]float32, n), make([]uint8, n)
			fill(d, 9)
			for i := range a {
				a[i] = list[(n+i)%11]
			}
			infinities(d, a, negative, positive)
			for i, x := range a {
				want := truth(negative && math.IsInf(float64(x), -1) || positive && math.IsInf(float64(x), 1))
				if d[i] != want {
					t.Fatalf("%v (negative %v, positive %v): got %d, want %d", x, negative, positive, d[i], want)
				}
			}
		}
	}
}
