package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Sixteen numbers at a time give the bits of eight at a time, for all kinds of numbers.
func TestSixteenAtATime(t *testing.T) {
	if wide < 16 {
		t.Skip("this machine has no AVX-512")
	}
	defer func(n int) { wide = n }(wide)
	r := rand.New(rand.NewPCG(5, 6))
	for _, f := range []struct {
		doc   string
		apply func(dst, src []float32)
	}{
		{"exp", func(d, s []float32) { Exp(d, s, 0.7, 0.1) }},
		{"sigmoid", Sigmoid},
		{"erf", func(d, s []float32) { Erf(d, s, 0.7, 0.1) }},
		{"tanh", Tanh},
		{"swish", func(d, s []float32) { Swish(d, s, 1.5) }},
		{"gelu", Gelu},
	} {
		for n := range 200 {
			src := make([]float32, n)
			for i := range src {
				src[i] = math.Float32frombits(r.Uint32())
				if r.IntN(2) == 0 {
					src[i] = float32(r.NormFloat64() * 30)
				}
			}
			bits := func(lanes int) []uint32 {
				wide = lanes
				out := slices.Clone(src)
				f.apply(out, out)
				list := make([]uint32, n)
				for i, v := range out {
					list[i] = math.Float32bits(v)
				}
				return list
			}
			if got, want := bits(16), bits(8); !slices.Equal(got, want) {
				t.Fatalf("%s of %v: %x, want %x", f.doc, src, got, want)
			}
		}
	}
}

func BenchmarkSigmoid(b *testing.B) {
	x := make([]float32, 1<<13)
	for i := range x {
		x[i] = float32(i%100)/10 - 5
	}
	y := make([]float32, len(x))
	for b.Loop() {
		Sigmoid(y, x)
	}
}
