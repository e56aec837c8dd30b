package simd

import "testing"

func TestLookUp(t *testing.T) {
	var table [256]byte
	src := make([]byte, 1000)
	for i := range table {
		table[i] = byte(i*i>>3 + 77*i)
	}
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 127, 128, 255, 256, 257, 511, 640, 1000} {
		dst := make([]byte, n+1)
		LookUp(dst, src[:n], &table)
		for i, got := range dst[:n] {
			if want := table[src[i]]; got != want {
				t.Fatalf("%d bytes: byte %d is %d, expected %d", n, i, got, want)
			}
		}
		if dst[n] != 0 {
			t.Errorf("%d bytes: wrote another", n)
		}
	}
}

func BenchmarkLookUp(b *testing.B) {
	var table [256]byte
	d := make([]byte, 1<<14)
	b.SetBytes(1 << 14)
	for b.Loop() {
		LookUp(d, d, &table)
	}
}
