package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The sums and gradients of a normalization have the bits of the same operations one by one,
// for every length, and in place, too.
func TestNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for n := range 100 {
		d, x, normal, product, want := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range n {
			d[i], x[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		g := NormGradient{float32(r.NormFloat64()), r.Float32(), r.Float32(), r.Float32(), r.Float32()}
		for i := range n {
			normal[i] = x[i] - g.Mean
		}
		if got, want := SquaresAround(x, g.Mean), Squares(normal, 0); got != want {
			t.Fatalf("squares of %d: got %v, want %v", n, got, want)
		}
		MulScalar(normal, normal, g.Inverse)
		Mul(product, d, normal)
		sum, of := NormSums(d, x, g.Mean, g.Inverse)
		if sum != Sum(d) || of != Sum(product) {
			t.Fatalf("sums of %d: got %v and %v, want %v and %v", n, sum, of, Sum(d), Sum(product))
		}
		AddScalar(want, d, -g.Shift)
		MulScalar(normal, normal, g.Slope)
		Sub(want, want, normal)
		MulScalar(want, want, g.Factor)
		got, overD, overX := make([]float32, n+1), append([]float32{}, d...), append([]float32{}, x...)
		g.Write(got[:n], d, x)
		g.Write(overD, overD, x)
		g.Write(overX, d, overX)
		for i, w := range want {
			for _, v := range []float32{got[i], overD[i], overX[i]} {
				if math.Float32bits(v) != math.Float32bits(w) {
					t.Fatalf("element %d of %d: got %v, want %v", i, n, v, w)
				}
			}
		}
		if got[n] != 0 {
			t.Fatal("a number beyond the end was written")
		}
	}
}
