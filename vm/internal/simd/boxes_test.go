package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Meeting finds the first block with a box that meets another, as plain comparisons do, and
// never one of NaN.
func TestMeeting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	draw := func() float32 {
		if r.IntN(20) == 0 {
			return float32(math.NaN())
		}
		return float32(r.IntN(40))
	}
	for range 2000 {
		blocks, box := make([]BoxBlock, r.IntN(6)), [4]float32{draw(), draw(), draw(), draw()}
		want := len(blocks)
		for i := range blocks {
			b := &blocks[i]
			for k := range 8 {
				b[0][k], b[1][k], b[2][k], b[3][k] = draw(), draw(), draw(), draw()
				if want > i && b[0][k] < box[2] && b[1][k] < box[3] && box[0] < b[2][k] && box[1] < b[3][k] {
					want = i
				}
			}
		}
		if got := Meeting(blocks, &box); got != want {
			t.Fatalf("Meeting(%v, %v) = %d, want %d", blocks, box, got, want)
		}
	}
}
