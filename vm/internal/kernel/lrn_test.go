package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuickResponse: float32 is as exact as float64 but for rounding, also where squares exceed it or
// vanish, and a pixel has the same bits wherever its block begins.
func TestQuickResponse(t *testing.T) {
	const channels, pixels = 5, 600
	random := rand.New(rand.NewPCG(5, 7))
	x := make([]float32, channels*pixels)
	for i := range x {
		x[i] = float32(random.NormFloat64() * 30)
	}
	x[pixels+300], x[2*pixels+301], x[3*pixels+302] = 1e25, float32(math.Inf(1)), 1e-30
	for _, bias := range []float64{0, 1e-25, 0.5, 2} {
		r := response[float32]{size: 3, channels: channels, pixels: pixels, alpha: 0.1, beta: 0.75, bias: bias}
		for ch := range channels {
			var whole [responseBlock]float32
			for first := 0; first < pixels; first += responseBlock {
				d := whole[:min(responseBlock, pixels-first)]
				r.quick(d, x, ch, first)
				for i, got := range d {
					want := r.exact(x, ch, first+i)
					if off := math.Abs(float64(got - want)); off > 5e-7*math.Abs(float64(want)) || math.IsNaN(float64(got)) != math.IsNaN(float64(want)) {
						t.Fatalf("bias %g, channel %d, pixel %d: %g, expected %g", bias, ch, first+i, got, want)
					}
				}
				for from := 0; from < len(d); from += 37 {
					piece := make([]float32, min(41, len(d)-from))
					r.quick(piece, x, ch, first+from)
					for i, got := range piece {
						if math.Float32bits(got) != math.Float32bits(d[from+i]) {
							t.Fatalf("bias %g, channel %d, pixel %d: %g in a block of its own, %g in another", bias, ch, first+from+i, got, d[from+i])
						}
					}
				}
			}
		}
	}
}
