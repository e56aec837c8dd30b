package simd

import (
	"math"
	"testing"
)

// values returns numbers of all magnitudes, infinities and NaN.
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

// denormal is about the smallest positive float32.
const denormal = 2e-45

// check allows an error of places units in the last place, plus tiny.
func check(t *testing.T, f func(dst, src []float32, scale, shift float32), want func(float64) float64, places, tiny float64) {
	t.Helper()
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
			if !(math.Abs(g-w) <= places*0x1p-23*math.Abs(w)+tiny) {
				t.Errorf("of %v: got %v, want %v", x, g, w)
			}
		}
	}
	// In place, and for any length.
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

func TestExp(t *testing.T) { check(t, Exp, math.Exp, 1, denormal) }

func TestErf(t *testing.T) { check(t, Erf, math.Erf, 2, denormal) }

func TestActivations(t *testing.T) {
	plain := func(f func(dst, src []float32)) func(dst, src []float32, scale, shift float32) {
		return func(dst, src []float32, scale, shift float32) {
			for i, x := range src {
				dst[i] = float32(float64(scale)*float64(x) + float64(shift))
			}
			f(dst[:len(src)], dst[:len(src)])
		}
	}
	check(t, Affine, func(x float64) float64 { return x }, 1, 1e-5) // x is near 0 where the terms cancel
	check(t, plain(Tanh), math.Tanh, 3, denormal)
	check(t, plain(Sigmoid), sigmoid, 3, 0x1p-126) // smaller results may be 0
	check(t, plain(Log), math.Log, 2, denormal)
	circle := func(name string, f func(dst, src []float32), want func(x float64) float64) {
		t.Helper()
		src := values()
		for x := float32(1e-3); x < 1e6; x *= 1.01 {
			src = append(src, x, -x, x*float32(math.Pi/2))
		}
		got := make([]float32, len(src))
		f(got, src)
		for i, x := range src {
			if g, w := float64(got[i]), want(float64(x)); !(math.Abs(g-w) <= 0x1p-23*max(math.Abs(w), min(math.Abs(float64(x)), 1))) && w == w || (g == g) != (w == w) {
				t.Errorf("%s of %v: got %v, want %v", name, x, g, w)
			}
		}
	}
	circle("Sin", Sin, math.Sin)
	circle("Cos", Cos, math.Cos)
	check(t, plain(Asin), math.Asin, 2, denormal)
	check(t, plain(Acos), math.Acos, 2, denormal)
	check(t, plain(Atan), math.Atan, 2, denormal)
	elu := func(alpha, beta, gamma float64) func(x float64) float64 {
		return func(x float64) float64 {
			if x < 0 {
				return gamma * alpha * math.Expm1(x/beta)
			}
			return gamma * x
		}
	}
	check(t, plain(func(d, a []float32) { LeakyRelu(d, a, 0.25) }), func(x float64) float64 { return max(x, 0) + 0.25*min(x, 0) }, 0, denormal)
	check(t, plain(func(d, a []float32) { ThresholdedRelu(d, a, 0.25) }), func(x float64) float64 {
		if x > 0.25 {
			return x
		}
		return 0
	}, 0, 0)
	check(t, plain(func(d, a []float32) { Elu(d, a, 1, 1, 1) }), elu(1, 1, 1), 4, denormal)
	check(t, plain(func(d, a []float32) { Elu(d, a, 1.75, 1, 0.75) }), elu(1.75, 1, 0.75), 4, denormal)
	check(t, plain(func(d, a []float32) { Elu(d, a, 0.5, 0.5, 1) }), elu(0.5, 0.5, 1), 4, denormal)
	check(t, plain(Softsign), func(x float64) float64 { return x / (1 + math.Abs(x)) }, 1, denormal)
	check(t, plain(Softplus), func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, 4, 4*denormal)
	// These functions cancel: their error is relative to the argument's size.
	near := func(name string, f func(dst, src []float32), want func(x float64) float64) {
		t.Helper()
		src := values()
		got := make([]float32, len(src))
		f(got, src)
		for i, x := range src {
			g, w := float64(got[i]), want(float64(x))
			if g == w || math.IsNaN(g) && math.IsNaN(w) {
				continue
			}
			if !(math.Abs(g-w) <= 0x1p-22*math.Abs(float64(x))+2e-45) {
				t.Errorf("%s of %v: got %v, want %v", name, x, g, w)
			}
		}
	}
	finite := func(f func(x float64) float64) func(x float64) float64 {
		return func(x float64) float64 {
			if math.IsInf(x, -1) {
				return math.NaN() // infinity times 0
			}
			return f(x)
		}
	}
	near("Mish", Mish, finite(func(x float64) float64 {
		return x * math.Tanh(max(x, 0)+math.Log1p(math.Exp(-math.Abs(x))))
	}))
	near("Gelu", Gelu, finite(func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }))
	near("GeluTanh", GeluTanh, finite(func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}))
	near("Swish", func(dst, src []float32) { Swish(dst, src, 1.5) }, func(x float64) float64 { return x * sigmoid(1.5*x) })
	check(t, plain(func(dst, src []float32) { HardSigmoid(dst, src, 0.25, 0.5) }), func(x float64) float64 { return min(max(x/4+0.5, 0), 1) }, 1, 0x1p-24)
	near("HardSwish", func(dst, src []float32) { HardSwish(dst, src, 0.25, 0.5) }, func(x float64) float64 {
		return x * min(max(x/4+0.5, 0), 1)
	})
}

// Clamp is Go's min and max, except that -0 becomes 0.
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

// Both sums are rounded.
func TestAddTwo(t *testing.T) {
	for n := range 40 {
		src, got := values()[60:60+n], make([]float32, n+1)
		AddTwo(got[:n], src, 1e6, -3)
		for i, x := range src {
			if want := float32(x+1e6) - 3; got[i] != want {
				t.Errorf("of %v: got %v, want %v", x, got[i], want)
			}
		}
		if got[n] != 0 {
			t.Fatal("AddTwo wrote beyond the end")
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

// A function of a list whose end fills no vector allocates nothing: kernels call it for
// every row.
func TestEndsAreNotAllocated(t *testing.T) {
	x := make([]float32, 13)
	if n := testing.AllocsPerRun(100, func() { Exp(x, x, 1, 0); Sigmoid(x, x); Tanh(x, x) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
