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

// So do conversions of 16 bits, to and from float32, for all of them and for random numbers.
func TestSixteenHalvesAtATime(t *testing.T) {
	if wide < 16 {
		t.Skip("this machine has no AVX-512")
	}
	defer func(n int) { wide = n }(wide)
	r := rand.New(rand.NewPCG(7, 8))
	halves, numbers := make([]uint16, 1<<16+9), make([]float32, 1<<16+9)
	for i := range halves {
		halves[i], numbers[i] = uint16(i), math.Float32frombits(r.Uint32()&^(r.Uint32N(2)*0x7fff))
	}
	for _, n := range []Narrow{Float16, BFloat16} {
		var widened, kept [2][]float32
		var rounded [2][]uint16
		var pairs [4][2][]float32 // of the operations, by their number
		var narrow [4][2][]uint16
		for i, lanes := range []int{8, 16} {
			wide = lanes
			widened[i], kept[i], rounded[i] = make([]float32, len(halves)), make([]float32, len(halves)), make([]uint16, len(halves))
			Widen(widened[i], halves, n)
			RoundWide(kept[i], numbers, n)
			Round(rounded[i], numbers, n)
			for op := Addition; op <= Multiplication; op++ {
				pairs[op][i], narrow[op][i] = make([]float32, len(halves)), make([]uint16, len(halves))
				Rounded(op, pairs[op][i], numbers, widened[i], n)
				Halves(op, narrow[op][i], halves, rounded[i], n)
			}
		}
		for op := Addition; op <= Multiplication; op++ {
			if !slices.Equal(bitsOf(pairs[op][0]), bitsOf(pairs[op][1])) || !slices.Equal(narrow[op][0], narrow[op][1]) {
				t.Errorf("type %d, operation %d: other bits with sixteen numbers at a time", n, op)
			}
		}
		if !slices.Equal(bitsOf(widened[0]), bitsOf(widened[1])) || !slices.Equal(bitsOf(kept[0]), bitsOf(kept[1])) || !slices.Equal(rounded[0], rounded[1]) {
			t.Errorf("type %d: other bits with sixteen numbers at a time", n)
		}
	}
}
