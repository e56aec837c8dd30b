package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Powers are those of float64, rounded, or off by one unit in the last place; others than
// ordinary ones are what the plain function gives. Lists have any length, and may be replaced.
func TestPower(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	special := values()[:19]
	any := func() float32 {
		switch r.IntN(8) {
		case 0:
			return special[r.IntN(len(special))]
		case 1:
			return math.Float32frombits(r.Uint32())
		case 2:
			return float32(r.IntN(9) - 4)
		case 3:
			return float32(r.NormFloat64()) * 1e-40
		}
		return float32(math.Exp(20 * r.NormFloat64()))
	}
	for n := range 600 {
		a, b := make([]float32, n), make([]float32, max(n, 1))
		usual := n%2 == 0
		for i := range b {
			b[i] = float32(3*r.NormFloat64()) + 1e-3
			if !usual {
				b[i] = any() * float32(1-2*r.IntN(2))
			}
		}
		for i := range a {
			a[i] = float32(math.Exp(4 * r.NormFloat64()))
			if !usual {
				a[i] = any()
			}
		}
		for _, exponents := range [][]float32{b, b[:1]} {
			plain := 0
			got := make([]float32, n+1)
			otherwise := func(x, y float32) float32 {
				plain++
				return float32(math.Pow(float64(x), float64(y)))
			}
			Power(got[:n], a, exponents, otherwise)
			if got[n] != 0 {
				t.Fatal("Power wrote beyond the end")
			}
			if usual && available && plain > 0 {
				t.Errorf("%d of %d ordinary numbers were computed one by one", plain, n)
			}
			place := append([]float32{}, a...)
			Power(place, place, exponents, otherwise)
			for i, x := range a {
				y := exponents[min(i, len(exponents)-1)]
				w := math.Pow(float64(x), float64(y))
				want := float32(w)
				g := got[i]
				if math.Float32bits(g) != math.Float32bits(place[i]) {
					t.Fatalf("%v^%v: got %v, in place %v", x, y, g, place[i])
				}
				if g != want && !(g != g && want != want) && !(math.Abs(float64(g)-w) <= 0.51*math.Max(ulp(want), 0x1p-149)) {
					t.Fatalf("%v^%v: got %v, want %v", x, y, g, w)
				}
			}
		}
	}
}

// ulp is the unit in the last place of a number.
func ulp(x float32) float64 {
	return float64(math.Nextafter32(float32(math.Abs(float64(x))), float32(math.Inf(1)))) - math.Abs(float64(x))
}
