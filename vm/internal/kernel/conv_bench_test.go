package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkTaps times one channel of a convolution by taps, and its adjoint.
func BenchmarkTaps(b *testing.B) {
	for _, side := range []int{7, 14, 56, 224} {
		for _, stride := range []int{1, 2} {
			v := &window{
				in: [3]int{1, side, side}, out: [3]int{1, (side + 1) / stride, (side + 1) / stride},
				kernel: [3]int{1, 3, 3}, stride: [3]int{1, stride, stride}, dil: [3]int{1, 1, 1}, pads: [3]int{0, 1, 1},
			}
			if stride == 1 {
				v.out = v.in
			}
			x, d, w := make([]float32, v.inputs()), make([]float32, v.outputs()), make([]float32, v.taps())
			c := &Invocation{Runtime: alone{}}
			b.Run(fmt.Sprintf("convolve/%d/stride=%d", side, stride), func(b *testing.B) {
				for b.Loop() {
					convolve(c, d, x, w, v)
				}
			})
			b.Run(fmt.Sprintf("spread/%d/stride=%d", side, stride), func(b *testing.B) {
				for b.Loop() {
					spread(c, x, d, w, v)
				}
			})
		}
	}
}
