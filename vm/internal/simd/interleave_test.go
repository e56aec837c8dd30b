package simd

import "testing"

func TestInterleave(t *testing.T) {
	for n := range 70 {
		a, b, got, x, twice := make([]uint32, n), make([]uint32, n), make([]uint32, 2*n+1), make([]float32, n), make([]float32, 2*n)
		for i := range n {
			a[i], b[i], x[i] = uint32(2*i), uint32(2*i+1), float32(i)
		}
		got[2*n] = 7
		Interleave(got, a, b)
		Double(twice, x)
		for i := range 2 * n {
			if got[i] != uint32(i) || twice[i] != float32(i/2) {
				t.Fatalf("of %d: element %d is %d, and %v of one list", n, i, got[i], twice[i])
			}
		}
		if got[2*n] != 7 {
			t.Fatal("Interleave wrote beyond the end")
		}
	}
}
