package kernel

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// BenchmarkTaps times one channel of a convolution by taps, and its adjoint.
func BenchmarkTaps(b *testing.B) {
	for _, side := range []int{7, 14, 56, 224} {
		for _, stride := range []int{1, 2} {
			v := &form.Window{
				In: [3]int{1, side, side}, Out: [3]int{1, (side + 1) / stride, (side + 1) / stride},
				Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, stride, stride}, Dilation: [3]int{1, 1, 1}, Pad: [3]int{0, 1, 1},
			}
			if stride == 1 {
				v.Out = v.In
			}
			x, d, w := make([]float32, v.Inputs()), make([]float32, v.Outputs()), make([]float32, v.Taps())
			c := &Invocation{Call: form.Call{Runtime: alone{}}}
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
