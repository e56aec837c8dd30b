package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every 16-bit number survives the conversion to float32 and back, and the vectors give
// the bits of the scalar functions.
func TestHalf(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	wide, back := make([]float32, len(all)), make([]uint16, len(all))
	for _, n := range []Narrow{Float16, BFloat16} {
		Widen(wide, all, n)
		Round(back, wide, n)
		for i, h := range all {
			w := n.widen(h)
			if math.Float32bits(w) != math.Float32bits(wide[i]) && w == w || (w == w) != (wide[i] == wide[i]) {
				t.Fatalf("type %d, %#04x: %v of the vectors, %v of one number", n, h, wide[i], w)
			}
			if back[i] != h && w == w {
				t.Fatalf("type %d, %#04x came back as %#04x", n, h, back[i])
			}
		}
	}
}

// Round rounds to the nearest number, ties to even, between any two neighbours.
func TestRound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	src := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 65504, 65519.99, 65520, 1e-8, 2.9802322e-08, 2.98023259e-08, 5.9604645e-08, 3.4e38}
	for len(src) < 1<<14+3 {
		src = append(src, math.Float32frombits(r.Uint32()), math.Float32frombits(0x33000000+r.Uint32()>>5&^0x7ff), math.Float32frombits(r.Uint32()&^0x7fff))
	}
	got, kept := make([]uint16, len(src)), make([]float32, len(src))
	for _, n := range []Narrow{Float16, BFloat16} {
		Round(got, src, n)
		RoundWide(kept, src, n)
		for i, x := range src {
			if want := n.widen(got[i]); math.Float32bits(kept[i]) != math.Float32bits(want) {
				t.Fatalf("type %d, %v stays %v, rounded it is %v", n, x, kept[i], want)
			}
			if want := n.round(x); got[i] != want {
				t.Fatalf("type %d, %v (%#x): %#04x of the vectors, %#04x of one number", n, x, math.Float32bits(x), got[i], want)
			}
			v := n.widen(got[i])
			if x != x || math.IsInf(float64(x), 0) || math.IsInf(float64(v), 0) {
				continue
			}
			for _, h := range []uint16{got[i] - 1, got[i] + 1} {
				next := n.widen(h)
				if math.IsInf(float64(next), 0) || next != next {
					continue
				}
				here, there := math.Abs(float64(v)-float64(x)), math.Abs(float64(next)-float64(x))
				if here > there || here == there && got[i]&1 == 1 {
					t.Fatalf("type %d: %v became %v, %v is as near and even, or nearer", n, x, v, next)
				}
			}
		}
	}
}

func TestWidenRows(t *testing.T) {
	const rows, columns, dstStep, srcStep = 3, 13, 20, 17
	src, dst := make([]uint16, rows*srcStep), make([]float32, rows*dstStep)
	for i := range src {
		src[i] = ToHalf(float32(i))
	}
	WidenRows(&dst[0], &src[0], rows, columns, dstStep, srcStep, Float16)
	for i, x := range dst {
		want := float32(i/dstStep*srcStep + i%dstStep)
		if i%dstStep >= columns {
			want = 0
		}
		if x != want {
			t.Fatalf("element %d is %v, expected %v", i, x, want)
		}
	}
}

// TestRoundAndAdd: it has the bits of the two steps one after the other, for numbers of all sizes, ties,
// infinite ones and NaN.
func TestRoundAndAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 15, 16, 100, 1000} {
		for _, as := range []Narrow{Float16, BFloat16} {
			dst, src := make([]float32, n), make([]uint16, n)
			for i := range dst {
				dst[i], src[i] = math.Float32frombits(r.Uint32()), uint16(r.Uint32())
				if i%3 == 0 {
					dst[i] = float32(r.NormFloat64())
				}
			}
			want, terms := make([]float32, n), make([]float32, n)
			RoundWide(want, dst, as)
			Widen(terms, src, as)
			Add(want, want, terms)
			RoundAndAdd(dst, src, as)
			for i, x := range dst {
				if math.Float32bits(x) != math.Float32bits(want[i]) {
					t.Fatalf("type %d, element %d of %d: %x, expected %x", as, i, n, math.Float32bits(x), math.Float32bits(want[i]))
				}
			}
		}
	}
}
