package simd

import (
	"math"
	"testing"
)

// The least integer stands for NaN and all that is out of range.
func TestTruncate(t *testing.T) {
	all := values()
	for x := float32(1); x < 1e10; x *= 1.37 {
		all = append(all, x, -x)
	}
	all = append(all, -1<<31, 1<<31, math.Nextafter32(1<<31, 0))
	for n := range len(all) {
		src := all[n%7 : n]
		if n < 7 {
			src = all[:n]
		}
		if n > 200 && n < len(all)-3 {
			continue
		}
		words, bytes := make([]int32, len(src)+1), make([]uint8, len(src)+1)
		Truncate(words, src)
		TruncateBytes(bytes, src)
		for i, x := range src {
			want := int32(math.MinInt32)
			if f := math.Trunc(float64(x)); f >= math.MinInt32 && f <= math.MaxInt32 {
				want = int32(f)
			}
			if words[i] != want || bytes[i] != uint8(want) {
				t.Fatalf("%v: got %d and byte %d, want %d", x, words[i], bytes[i], want)
			}
		}
		if words[len(src)] != 0 || bytes[len(src)] != 0 {
			t.Fatal("an integer beyond the end was written")
		}
	}
}

// All integers beside those that float32 has are rounded to even.
func TestFromIntegers(t *testing.T) {
	var src []int32
	for x := int64(1); x <= 1<<31; x *= 2 {
		for _, y := range []int64{x - 3, x - 1, x, x + 1, x + 3, -x, 1 - x, 3 - x, x + x/2 + 1} {
			src = append(src, int32(y))
		}
	}
	for n := range len(src) {
		got := make([]float32, n+1)
		FromIntegers(got, src[len(src)-n:])
		for i, x := range src[len(src)-n:] {
			if want := float32(float64(x)); got[i] != want {
				t.Fatalf("%d: got %g, want %g", x, got[i], want)
			}
		}
		if got[n] != 0 {
			t.Fatal("a number beyond the end was written")
		}
	}
}
