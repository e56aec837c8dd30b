package gemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPool joins the elements under the kernel, for all kinds of windows. Padding counts as
// less than all numbers, or as 0 in a sum; some images have elements that are NaN or infinite.
func TestPool(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 24))
		done := 0
		for k, w := range append([]window{flat(1, 112, 3, 2, 1), flat(1, 111, 3, 2, 0), flat(1, 56, 3, 1, 1), flat(1, 28, 2, 2, 0), flat(1, 30, 5, 3, 2), flat(1, 17, 3, 1, 9), flat(1, 40, 7, 2, 3), flat(1, 7, 3, 2, 1)}, windows...) {
			for _, sum := range []bool{false, true} {
				w.channels = 1
				p := Pool{In: w.in, Out: w.out(), Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad, Sum: sum}
				masks, n, taps := p.MaskLen(), p.Out[0]*p.Out[1]*p.Out[2], w.kernel[0]*w.kernel[1]*w.kernel[2]
				if masks == 0 {
					continue // without vectors
				}
				done++
				p.UseMasks(make([]uint16, masks))
				x := floats(r, w.in[0]*w.in[1]*w.in[2])
				for i := range x {
					x[i] -= 2 // all below 0, as padding must not be
					if k%2 == 0 && !sum && r.IntN(30) == 0 {
						x[i] = []float32{float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1))}[r.IntN(3)]
					}
				}
				size := p.ScratchBytes() / 4
				got, scratch := floats(r, n+8), floats(r, size+8)
				beyond, margin := slices.Clone(scratch[size:]), slices.Clone(got[n:])
				p.Plane(at(got), at(x), at(scratch))
				for j, v := range got[:n] {
					most, total := math.Inf(-1), 0.0
					for tap := range taps {
						if i, inside := w.place(j, tap); inside {
							most = max(most, float64(x[i]))
							total += float64(x[i])
						}
					}
					switch {
					case sum && math.Abs(float64(v)-total) > 1e-5*(1+math.Abs(total)):
						t.Fatalf("window %v, element %d: got a sum of %v, want %v", w, j, v, total)
					case !sum && float64(v) != most && (v == v || most == most):
						t.Fatalf("window %v, element %d: got %v, want %v", w, j, v, most)
					}
				}
				same(t, "beyond the end", got[n:], margin)
				same(t, "beyond the scratch", scratch[size:], beyond)
			}
		}
		if done == 0 && chosen != plain {
			t.Error("no window was pooled")
		}
	})
}
