package simd

import (
	"math"
	"testing"
)

// TestExtent: the bounds of every length are those of the numbers alone, wherever they lie.
func TestExtent(t *testing.T) {
	nan := float32(math.NaN())
	for n := range 100 {
		for place := range n {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i%5) - 2
			}
			x[place] = 7
			x[(place+n/2)%n] = nan
			x[(place+1)%n] = -9
			wantLow, wantHigh := float32(0), float32(0)
			for _, v := range x {
				if v < wantLow {
					wantLow = v
				}
				if v > wantHigh {
					wantHigh = v
				}
			}
			if low, high := Extent(x); low != wantLow || high != wantHigh {
				t.Fatalf("%d numbers, the largest at %d: [%v, %v], expected [%v, %v]", n, place, low, high, wantLow, wantHigh)
			}
		}
	}
}
