package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Turned is the weights of a convolution as one side of its transposed convolution by single
// steps. Channels of the image are rows of A, or columns of B; the depths are the channels of
// the result, each with its taps in reverse.
type Turned struct {
	At   unsafe.Pointer
	Len  int // rows
	Step int // elements from one channel of the result to the next
	Taps int

	Format Format
}

// Pack copies a strip. The taps of some rows are a matrix in memory, which is transposed
// from its end.
func (m *Turned) Pack(dst []float32, width, first, k, n int) {
	rows := min(width, m.Len-first)
	if rows < width {
		clear(dst)
	}
	tap := k % m.Taps
	size := m.Format.size()
	at := unsafe.Add(m.At, size*(k/m.Taps*m.Step+first*m.Taps))
	for d := 0; d < n; {
		count := min(m.Taps-tap, n-d)
		if from := unsafe.Add(at, size*(m.Taps-tap-count)); m.Format == Float32 {
			simd.Transpose(&dst[(d+count-1)*width], (*float32)(from), -width, m.Taps, rows, count)
		} else {
			transposeHalf(&dst[(d+count-1)*width], (*uint16)(from), -width, m.Taps, rows, count, m.Format)
		}
		d, tap = d+count, 0
		at = unsafe.Add(at, size*m.Step)
	}
}
