package gemm

import "unsafe"

// Turned is the weights of a convolution as the A of its transposed convolution by single
// steps: channels of the image are rows, and the depths are the channels of the result,
// each with its taps in reverse.
type Turned struct {
	At   unsafe.Pointer
	Len  int // rows
	Step int // elements from one channel of the result to the next
	Taps int
}

// Pack copies a strip.
func (m *Turned) Pack(dst []float32, width, first, k, n int) {
	rows := min(width, m.Len-first)
	if rows < width {
		clear(dst)
	}
	for r := range rows {
		tap := k % m.Taps
		at := unsafe.Add(m.At, 4*(k/m.Taps*m.Step+(first+r)*m.Taps))
		for d := 0; d < n; {
			count := min(m.Taps-tap, n-d)
			weights := unsafe.Slice(float(at, 4*(m.Taps-tap-count)), count)
			for i := range weights {
				dst[(d+i)*width+r] = weights[count-1-i]
			}
			d, tap = d+count, 0
			at = unsafe.Add(at, 4*m.Step)
		}
	}
}
