package gemm

import "unsafe"

// Planes is a Dense whose rows of A, or columns of B, continue in the next image after every
// Plane elements: the channels of a batch, one after the other along the depth.
type Planes struct {
	Dense
	Plane int // elements of a channel of one image
	Next  int // elements from one image to the next
}

// Pack copies a strip, image by image.
func (m *Planes) Pack(dst []float32, width, first, k, n int) {
	part := m.Dense
	for d := 0; d < n; {
		image, from := (k+d)/m.Plane, (k+d)%m.Plane
		count := min(n-d, m.Plane-from)
		part.At = unsafe.Add(m.At, m.Format.size()*image*m.Next)
		part.Pack(dst[d*width:(d+count)*width], width, first, from, count)
		d += count
	}
}
