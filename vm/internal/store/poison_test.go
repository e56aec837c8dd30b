package store

import (
	"slices"
	"testing"
)

// The pattern is aligned to the words of the block, wherever the bytes begin and end.
func TestSpoil(t *testing.T) {
	for off := range int64(9) {
		p := []Poison{Signalling, Enormous}[off%2]
		for _, n := range []int{0, 1, 7, 8, 63, 64, 65, 200, 1000} {
			b := make([]byte, n)
			p.Spoil(b, off)
			for i := range b {
				if b[i] != p.At(off+int64(i)) {
					t.Fatalf("offset %d, %d bytes: byte %d is %#x", off, n, i, b[i])
				}
			}
			if k := p.FirstChanged(b, off); k != -1 {
				t.Errorf("offset %d, %d bytes: byte %d is said to have changed", off, n, k)
			}
			for _, i := range []int{0, n / 2, n - 1} {
				if n == 0 {
					continue
				}
				c := slices.Clone(b)
				c[i] ^= 1
				if k := p.FirstChanged(c, off); k != int64(i) {
					t.Errorf("offset %d, %d bytes: byte %d changed, found %d", off, n, i, k)
				}
			}
		}
	}
}
