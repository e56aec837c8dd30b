package simd

import "testing"

func TestNibbles(t *testing.T) {
	for n := range 100 {
		src, got := make([]uint8, (n+1)/2), make([]float32, n+1)
		for i := range src {
			src[i] = uint8(i*73 + n)
		}
		got[n] = 7
		Nibbles(got[:n], src, 7.5, 0.3)
		for i := range n {
			x := float32(src[i/2] & 15)
			if i%2 == 1 {
				x = float32(src[i/2] >> 4)
			}
			if want := float32(x-7.5) * 0.3; got[i] != want {
				t.Fatalf("of %d: number %d, %v, is %v, want %v", n, i, x, got[i], want)
			}
		}
		if got[n] != 7 {
			t.Fatal("Nibbles wrote beyond the end")
		}
	}
}
