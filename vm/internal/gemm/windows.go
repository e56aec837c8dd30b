package gemm

import "unsafe"

// Windows is the A of a convolution that has few outputs for each of many images: the
// transposed im2col matrix, with a row for each image and output position, and a column
// for each channel and kernel position. It is 0 outside of the images. The gradient of a
// convolution's weights is such a convolution: its images are the channels, its channels
// the images, and its kernel is as large as the image.
type Windows struct {
	At       unsafe.Pointer // of the first channel of the first image
	Rows     int            // images times output positions
	Step     int            // elements from one image to the next
	Channel  int            // elements from one channel to the next
	In       [3]int         // as in Image
	Out      [3]int
	Kernel   [3]int
	Stride   [3]int
	Dilation [3]int
	Pad      [3]int
}

// Pack writes a strip, depth by depth.
func (m *Windows) Pack(dst []float32, width, first, k, n int) {
	var row [mostDepth]float32
	clear(dst)
	for r := range min(width, m.Rows-first) {
		for d := 0; d < n; d += mostDepth {
			piece := row[:min(mostDepth, n-d)]
			m.packRow(piece, first+r, k+d)
			for i, x := range piece {
				dst[(d+i)*width+r] = x
			}
		}
	}
}

// packRows writes rows [first, first+rows) at depths [k, k+n), one row after the other,
// which takes no transposition. A micro-kernel reads its rows from anywhere.
func (m *Windows) packRows(dst []float32, first, rows, k, n int) {
	for r := range rows {
		m.packRow(dst[r*n:(r+1)*n], first+r, k)
	}
}

// packRow writes the elements under the kernel at one output position, from depth k on.
func (m *Windows) packRow(row []float32, r, k int) {
	outputs, n := m.Out[0]*m.Out[1]*m.Out[2], len(row)
	image, place := r/outputs, r%outputs
	plane := m.Kernel[1] * m.Kernel[2]
	taps := m.Kernel[0] * plane
	var start [3]int
	for a, o := range [3]int{place / m.Out[2] / m.Out[1], place / m.Out[2] % m.Out[1], place % m.Out[2]} {
		start[a] = o*m.Stride[a] - m.Pad[a]
	}
	// The kernel's columns that lie in the image.
	left, right := within(-start[2], m.Dilation[2], m.In[2], m.Kernel[2])
	channel, tap := k/taps, k%taps
	kd, kh, kw := tap/plane, tap/m.Kernel[2]%m.Kernel[1], tap%m.Kernel[2]
	at := unsafe.Add(m.At, 4*(image*m.Step+channel*m.Channel))
	for d := 0; d < n; {
		length := min(m.Kernel[2]-kw, n-d)
		id, ih := start[0]+kd*m.Dilation[0], start[1]+kh*m.Dilation[1]
		from, to := max(left, kw), min(right, kw+length)
		if uint(id) >= uint(m.In[0]) || uint(ih) >= uint(m.In[1]) || from >= to {
			clear(row[d : d+length])
		} else {
			clear(row[d : d+from-kw])
			clear(row[d+to-kw : d+length])
			piece := row[d+from-kw : d+to-kw]
			src := float(at, 4*((id*m.In[1]+ih)*m.In[2]+start[2]+from*m.Dilation[2]))
			if m.Dilation[2] == 1 {
				copy(piece, unsafe.Slice(src, len(piece)))
			} else {
				for i := range piece {
					piece[i] = *float(unsafe.Pointer(src), 4*i*m.Dilation[2])
				}
			}
		}
		d += length
		kw = 0
		if kh++; kh == m.Kernel[1] {
			kh = 0
			if kd++; kd == m.Kernel[0] {
				kd = 0
				at = unsafe.Add(at, 4*m.Channel)
			}
		}
	}
}
