package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

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
	Format   Format
}

// Pack writes a strip, depth by depth.
func (m *Windows) Pack(dst []float32, width, first, k, n int) {
	var row [mostDepth]float32
	clear(dst)
	for r := range min(width, m.Rows-first) {
		for d := 0; d < n; d += mostDepth {
			piece := row[:min(mostDepth, n-d)]
			m.packRows(piece, first+r, 1, k+d, len(piece))
			for i, x := range piece {
				dst[(d+i)*width+r] = x
			}
		}
	}
}

// packRows writes rows [first, first+rows) at depths [k, k+n), one row after the other,
// which takes no transposition. A micro-kernel reads its rows from anywhere.
func (m *Windows) packRows(dst []float32, first, rows, k, n int) {
	if m.Format != Float32 && m.Dilation[2] > 1 && m.In[0] == 1 && m.Out[0] == 1 && m.Kernel[0] == 1 && m.Pad[0] == 0 {
		m.packParts(dst, first, rows, k, n)
		return
	}
	u, image, place := m.under(k), first/m.outputs(), m.place(first%m.outputs())
	for r := range rows {
		m.packRow(dst[r*n:(r+1)*n], &u, image, &place)
		if place[2]++; place[2] < m.Out[2] {
			continue
		}
		place[2] = 0
		if place[1]++; place[1] < m.Out[1] {
			continue
		}
		place[1] = 0
		if place[0]++; place[0] == m.Out[0] {
			place[0] = 0
			image++
		}
	}
}

// packParts is packRows for 16-bit images of two axes in which neighbours under the kernel are no
// neighbours: what the rows of an image read is widened once, before they are packed.
func (m *Windows) packParts(dst []float32, first, rows, k, n int) {
	var room [1 << 12]float32
	width := m.Kernel[2]
	for d := 0; d < n; {
		channel, tap := (k+d)/(m.Kernel[1]*width), (k+d)%(m.Kernel[1]*width)
		top, below := tap/width, min((tap+n-d-1)/width+1, m.Kernel[1]) // rows of the kernel
		low, high := m.under1(top, below)
		for (high-low)*m.In[2] > len(room) && below > top+1 {
			below = top + (below-top)/2
			low, high = m.under1(top, below)
		}
		count := min(below*width-tap, n-d)
		part, u := *m, under{0, tap, [3]int{0, top, tap % width}}
		fits := (high-low)*m.In[2] <= len(room)
		if fits {
			part.Format, part.At = Float32, unsafe.Pointer(&room)
			part.In[1] = high - low
			part.Pad[1] += low
		}
		for r, at := 0, -1; r < rows; r++ {
			image, place := (first+r)/m.outputs(), m.place((first+r)%m.outputs())
			if from := unsafe.Add(m.At, 2*(image*m.Step+channel*m.Channel)); image != at && fits {
				simd.Widen(room[:(high-low)*m.In[2]], unsafe.Slice((*uint16)(unsafe.Add(from, 2*low*m.In[2])), (high-low)*m.In[2]), m.Format.narrow())
			} else if !fits {
				part.At = from
			}
			at = image
			part.packRow(dst[r*n+d:][:count], &u, 0, &place)
		}
		d += count
	}
}

// under1 returns the rows of the image that rows [top, below) of the kernel read.
func (m *Windows) under1(top, below int) (low, high int) {
	low = min(max(top*m.Dilation[1]-m.Pad[1], 0), m.In[1])
	return low, max(min((m.Out[1]-1)*m.Stride[1]+(below-1)*m.Dilation[1]-m.Pad[1]+1, m.In[1]), low)
}

func (m *Windows) outputs() int { return m.Out[0] * m.Out[1] * m.Out[2] }

// place is the position of an output in its image's output.
func (m *Windows) place(o int) [3]int {
	return [3]int{o / m.Out[2] / m.Out[1], o / m.Out[2] % m.Out[1], o % m.Out[2]}
}

// under is where a depth lies under the kernel.
type under struct {
	channel, tap int
	at           [3]int // the tap's position in the kernel
}

func (m *Windows) under(k int) under {
	plane := m.Kernel[1] * m.Kernel[2]
	taps := m.Kernel[0] * plane
	tap := k % taps
	return under{k / taps, tap, [3]int{tap / plane, tap / m.Kernel[2] % m.Kernel[1], tap % m.Kernel[2]}}
}

// packRow writes the elements under the kernel at one output position, from a depth on.
func (m *Windows) packRow(row []float32, u *under, image int, place *[3]int) {
	n := len(row)
	size := m.Format.size()
	at := unsafe.Add(m.At, size*(image*m.Step+u.channel*m.Channel))
	back, top, side := place[0]*m.Stride[0]-m.Pad[0], place[1]*m.Stride[1]-m.Pad[1], place[2]*m.Stride[2]-m.Pad[2]
	if m.even() {
		taps := m.Kernel[0] * m.Kernel[1] * m.Kernel[2]
		first := (back*m.In[1]+top)*m.In[2] + side
		for d, tap, kh, kw := 0, u.tap, u.at[1], u.at[2]; d < n; tap, kh, kw = 0, 0, 0 {
			piece := row[d:min(d+taps-tap, n)]
			m.packEven(piece, at, first+tap, top, side, kh, kw)
			d += len(piece)
			at = unsafe.Add(at, size*m.Channel)
		}
		return
	}
	// The kernel's columns that lie in the image.
	left, right := within(-side, m.Dilation[2], m.In[2], m.Kernel[2])
	kd, kh, kw := u.at[0], u.at[1], u.at[2]
	for d := 0; d < n; {
		length := min(m.Kernel[2]-kw, n-d)
		id, ih := back+kd*m.Dilation[0], top+kh*m.Dilation[1]
		from, to := max(left, kw), min(right, kw+length)
		if uint(id) >= uint(m.In[0]) || uint(ih) >= uint(m.In[1]) || from >= to {
			clear(row[d : d+length])
		} else {
			clear(row[d : d+from-kw])
			clear(row[d+to-kw : d+length])
			m.read(row[d+from-kw:d+to-kw], unsafe.Add(at, size*((id*m.In[1]+ih)*m.In[2]+side+from*m.Dilation[2])))
		}
		d += length
		kw = 0
		if kh++; kh == m.Kernel[1] {
			kh = 0
			if kd++; kd == m.Kernel[0] {
				kd = 0
				at = unsafe.Add(at, size*m.Channel)
			}
		}
	}
}

// read copies elements that lie Dilation[2] apart.
func (m *Windows) read(row []float32, at unsafe.Pointer) {
	switch step := m.Dilation[2]; {
	case m.Format != Float32 && step == 1:
		simd.Widen(row, unsafe.Slice((*uint16)(at), len(row)), m.Format.narrow())
	case m.Format != Float32:
		widenEach(row, at, step, m.Format)
	case step == 1:
		copy(row, unsafe.Slice((*float32)(at), len(row)))
	default:
		for i := range row {
			row[i] = *float(at, 4*i*step)
		}
	}
}

// even reports whether neighbours under the kernel are neighbours in the image, across the
// ends of the kernel's rows and planes, too.
func (m *Windows) even() bool {
	return m.Dilation == [3]int{1, 1, 1} && m.In[1] == m.Kernel[1] && m.In[2] == m.Kernel[2]
}

// packEven is packRow for the taps of one channel, if even, from the tap at row kh and column
// kw on, which reads the given element. It copies them as one piece, and then clears the
// columns and rows that lie outside of the image; beyond its first and last plane nothing is
// copied.
func (m *Windows) packEven(row []float32, at unsafe.Pointer, from, top, side, kh, kw int) {
	width, n := m.In[2], len(row)
	plane := m.In[1] * width
	low := min(max(-from, 0), n)
	high := max(min(m.In[0]*plane-from, n), low)
	clear(row[:low])
	clear(row[high:])
	if m.read(row[low:high], unsafe.Add(at, m.Format.size()*(from+low))); side == 0 && top == 0 {
		return
	}
	if side != 0 {
		clearEach(row, -kw, width, -side)
		clearEach(row, width-side-kw, width, side)
	}
	if top != 0 {
		kw += kh * width
		clearEach(row, -kw, plane, -top*width)
		clearEach(row, plane-top*width-kw, plane, top*width)
	}
}

// clearEach clears count elements, if any, of row at every step from first on, which may lie
// before the row.
func clearEach(row []float32, first, step, count int) {
	switch {
	case count <= 0:
	case count == 1:
		if first < 0 {
			first += step
		}
		for ; first < len(row); first += step {
			row[first] = 0
		}
	default:
		for count = min(count, step); first < len(row); first += step {
			if from, to := max(first, 0), min(first+count, len(row)); from < to {
				clear(row[from:to])
			}
		}
	}
}
