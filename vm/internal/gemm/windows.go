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
	u, image, place := m.under(k), first/m.outputs(), m.place(first%m.outputs())
	for r := range rows {
		m.packRow(dst[r*n:(r+1)*n], &u, image, place)
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
func (m *Windows) packRow(row []float32, u *under, image int, place [3]int) {
	n := len(row)
	var start [3]int
	for a, o := range place {
		start[a] = o*m.Stride[a] - m.Pad[a]
	}
	// The kernel's columns that lie in the image.
	left, right := within(-start[2], m.Dilation[2], m.In[2], m.Kernel[2])
	at := unsafe.Add(m.At, 4*(image*m.Step+u.channel*m.Channel))
	if m.even() {
		taps := m.Kernel[0] * m.Kernel[1] * m.Kernel[2]
		for d, from := 0, *u; d < n; from = (under{}) {
			piece := row[d:min(d+taps-from.tap, n)]
			m.packEven(piece, at, start, left, right, &from)
			d += len(piece)
			at = unsafe.Add(at, 4*m.Channel)
		}
		return
	}
	kd, kh, kw := u.at[0], u.at[1], u.at[2]
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

// even reports whether neighbours under the kernel are neighbours in the image, across the
// ends of the kernel's rows and planes, too.
func (m *Windows) even() bool {
	return m.Dilation == [3]int{1, 1, 1} && m.In[1] == m.Kernel[1] && m.In[2] == m.Kernel[2]
}

// packEven is packRow for the taps of one channel, if even. It copies them as one piece, and
// then clears what lies outside of the image.
func (m *Windows) packEven(row []float32, at unsafe.Pointer, start [3]int, left, right int, u *under) {
	height, width := m.In[1], m.In[2]
	from := (start[0]*height+start[1])*width + start[2] + u.tap
	low := min(max(-from, 0), len(row))
	high := max(min(m.In[0]*height*width-from, len(row)), low)
	clear(row[:low])
	clear(row[high:])
	copy(row[low:high], unsafe.Slice(float(at, 4*(from+low)), high-low))
	kd, kh := u.at[0], u.at[1]
	for d := -u.at[2]; d < len(row); d += width {
		id, ih := start[0]+kd, start[1]+kh
		if uint(id) >= uint(m.In[0]) || uint(ih) >= uint(height) {
			clear(row[max(d, 0):min(d+width, len(row))])
		} else {
			for x := max(d, 0); x < min(d+left, len(row)); x++ {
				row[x] = 0
			}
			for x := max(d+right, 0); x < min(d+width, len(row)); x++ {
				row[x] = 0
			}
		}
		if kh++; kh == height {
			kh = 0
			kd++
		}
	}
}
