package gemm

import "unsafe"

// A kernel that reaches outside of an image divides it into many boxes of few pixels, each of which
// waits for its own sums, tap by tap. Surrounded by its padding, the image is one box. A product
// with a 0 of the padding is that for which a tap outside of the image counts, so the bits are the
// same.

// mostSurrounded is the size of the largest image that is copied, in bytes: less than the scratch of
// a product.
const mostSurrounded = 1 << 18

// Surrounded returns the same weighted sums on an image with its padding, which Surround writes;
// nil where so few pixels lie at the edges of the image that the copy takes longer.
func (b *BlockSlide) Surrounded() *BlockSlide {
	// A pixel at an edge waits some three instructions more for each tap.
	const waits, copies = 3, 4
	if b.Join != Weigh || b.Bands() > 1 {
		return nil
	}
	inside := 1
	for a := 1; a < 3; a++ {
		n := 0
		for _, s := range b.segments(nil, a, 0, b.Out[a]) {
			if s.first == 0 && s.last == b.Kernel[a] {
				n += s.to - s.from
			}
		}
		inside *= n
	}
	edge := b.Out[1]*b.Out[2] - inside
	s := &BlockSlide{In: b.In, Out: b.Out, Kernel: b.Kernel, Stride: b.Stride, Dilation: b.Dilation, Act: b.Act, Low: b.Low, High: b.High, Half: b.Half}
	for a := 1; a < 3; a++ {
		s.In[a] = (b.Out[a]-1)*b.Stride[a] + (b.Kernel[a]-1)*b.Dilation[a] + 1
	}
	if s.ImageBytes() > mostSurrounded || waits*edge*b.Kernel[1]*b.Kernel[2] <= copies*s.In[1]*s.In[2] {
		return nil
	}
	return s
}

// ImageBytes is the size of a block of the image.
func (b *BlockSlide) ImageBytes() int { return 4 * b.lanes() * b.In[1] * b.In[2] }

// Surround copies a block of the image into the image of s, which Surrounded returned.
func (b *BlockSlide) Surround(s *BlockSlide, dst, src unsafe.Pointer) {
	lanes := s.lanes()
	wide := lanes * s.In[2]
	to := unsafe.Slice((*float32)(dst), wide*s.In[1])
	from := unsafe.Slice((*float32)(src), lanes*b.In[1]*b.In[2])
	left := min(lanes*b.Pad[2], wide)
	right := min(left+lanes*b.In[2], wide)
	for r := range s.In[1] {
		row := to[r*wide:][:wide]
		i := r - b.Pad[1]
		if i < 0 || i >= b.In[1] {
			clear(row)
			continue
		}
		clear(row[:left])
		copy(row[left:right], from[i*lanes*b.In[2]:])
		clear(row[right:])
	}
}
