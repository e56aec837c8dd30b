package simd

import (
	"math"
	"testing"
)

// values are numbers of all sizes, and those that are none.
func values() []float32 {
	list := []float32{
		0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		1, -1, math.Nextafter32(1, 0), 88.7, 88.73, -87.3, -87.5, -103, -103.9, -104.2, -1e30, 1e30, 1e-45, -1e-45,
	}
	for x := float32(-110); x < 95; x += 0.0137 {
		list = append(list, x, x*0.04, x*1e-6)
	}
	return list
}

func check(t *testing.T, f func(dst, src []float32, scale, shift float32), want func(float64) float64, places float64) {
	for _, arg := range [][2]float32{{1, 0}, {-0.5, 0}, {1, -2.5}} {
		src := values()
		got := make([]float32, len(src)+1)
		got[len(src)] = 7
		f(got, src, arg[0], arg[1])
		if got[len(src)] != 7 {
			t.Fatal("a number beyond the end was written")
		}
		for i, x := range src {
			x = float32(float64(arg[0])*float64(x) + float64(arg[1]))
			g, w := float64(got[i]), want(float64(x))
			if math.IsNaN(g) && math.IsNaN(w) || g == float64(float32(w)) {
				continue
			}
			if !(math.Abs(g-w) <= places*0x1p-23*math.Abs(w)+2e-45) {
				t.Errorf("of %v: got %v, want %v", x, g, w)
			}
		}
	}
	// In place, and of any length.
	for n := range 20 {
		list := values()[:n]
		got := make([]float32, n)
		f(got, list, 1, 0)
		f(list, list, 1, 0)
		for i := range list {
			if math.Float32bits(list[i]) != math.Float32bits(got[i]) {
				t.Fatalf("%d numbers in place: element %d is %v, expected %v", n, i, list[i], got[i])
			}
		}
	}
}

func TestExp(t *testing.T) { check(t, Exp, math.Exp, 1) }

func TestErf(t *testing.T) { check(t, Erf, math.Erf, 2) }

// Clamp is Go's min and max but for -0, which becomes 0.
func TestClamp(t *testing.T) {
	for _, r := range [][2]float32{{0, float32(math.Inf(1))}, {0, 6}, {-1, 1}, {2, -2}} {
		src := values()
		got := make([]float32, len(src))
		Clamp(got, src, r[0], r[1])
		for i, x := range src {
			want := min(max(x, r[0]), r[1])
			if want == 0 {
				want = 0
			}
			if math.Float32bits(got[i]) != math.Float32bits(want) && !(got[i] != got[i] && want != want) {
				t.Errorf("%v clamped to %v: got %v, want %v", x, r, got[i], want)
			}
		}
	}
}

func BenchmarkErf(b *testing.B) {
	src, dst := make([]float32, 4096), make([]float32, 4096)
	for i := range src {
		src[i] = float32(i)/1024 - 2
	}
	b.SetBytes(4 * 4096)
	for b.Loop() {
		Erf(dst, src, 1, 0)
	}
}
