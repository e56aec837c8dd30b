package gemm

import "unsafe"

// Image is the B of a convolution (the im2col matrix): a row for each channel and kernel
// position, a column for each output position, and 0 outside of the image. It is packed
// straight from the image. It always has 3 spatial axes (depth, height, width); those of
// an image with fewer axes have length 1.
type Image struct {
	At       unsafe.Pointer // of the first channel
	Channels int
	In       [3]int // lengths of the image
	Out      [3]int // lengths of the output
	Kernel   [3]int
	Stride   [3]int
	Dilation [3]int
	Pad      [3]int // before the image

	// Volume and Plane are the elements from one channel to the next, and from one place of
	// the first axis to the next; 0: the channels are contiguous. So several images of two
	// axes can be the places of the first axis of one image.
	Volume, Plane int

	// Spread orders the depths by tap, and then by channel (otherwise by channel, and then
	// by tap). A block of depths then belongs to one tap, and a strip leaves it out if the
	// tap lies outside of the image for all of its columns.
	Spread bool
	// Together is 0, or the number of channels of one tap that come before those of the next
	// tap: it divides Channels. Spread must not be set.
	Together int

	Format Format // 16-bit images are widened part by part: see widePart
}

// WorthSpreading reports whether the taps are so far apart that Spread saves much of the
// multiplications.
func (m *Image) WorthSpreading() bool {
	taps := m.Kernel[1] * m.Kernel[2]
	if m.In[0] != 1 || m.Out[0] != 1 || m.Kernel[0] != 1 || m.Channels < leastSpread || taps == 1 || m.Out[2] < levels[chosen].columns/2 {
		return false
	}
	seen, whole := 0, m.Kernel[1]*m.Out[1]
	for kh := range m.Kernel[1] {
		top, bottom := within(m.Pad[1]-kh*m.Dilation[1], m.Stride[1], m.In[1], m.Out[1])
		seen += bottom - top
	}
	return 10*seen < 9*whole
}

const leastSpread = 128 // channels: shorter blocks of depths write C too often

func (m *Image) taps() int { return m.Kernel[0] * m.Kernel[1] * m.Kernel[2] }

// strides returns Volume and Plane, or what 0 stands for.
func (m *Image) strides() (volume, plane int) {
	if m.Volume > 0 {
		return m.Volume, m.Plane
	}
	plane = m.In[1] * m.In[2]
	return m.In[0] * plane, plane
}

// span returns the columns [from, to) of those that begin at first, outside of which the
// tap of depth k reads nothing. The image must be Spread.
func (m *Image) span(k, first, columns int) (from, to int) {
	_, kh, kw := m.tap(k / m.Channels)
	top, bottom := within(m.Pad[1]-kh*m.Dilation[1], m.Stride[1], m.In[1], m.Out[1])
	left, right := within(m.Pad[2]-kw*m.Dilation[2], m.Stride[2], m.In[2], m.Out[2])
	if left == right {
		return 0, 0
	}
	from = columns
	for row := max(top, first/m.Out[2]); row < bottom && row*m.Out[2] < first+columns; row++ {
		low, high := max(row*m.Out[2]+left-first, 0), min(row*m.Out[2]+right-first, columns)
		if low < high {
			from, to = min(from, low), high
		}
	}
	return min(from, to), to
}

// byTap reports whether several depths that follow each other belong to one tap.
func (m *Image) byTap() bool { return m.Spread || m.Together > 0 }

// eachTap calls f for the depths [k, k+n) of an image by taps: count depths, beginning with
// the given one behind k, of a tap and of the channels from channel on.
func (m *Image) eachTap(k, n int, f func(behind, tap, channel, count int)) {
	together, taps := m.Channels, m.taps()
	if !m.Spread {
		together = m.Together
	}
	for d := 0; d < n; {
		group, within := (k+d)/together, (k+d)%together
		tap, channel := group%taps, group/taps*together+within
		count := min(n-d, together-within)
		f(d, tap, channel, count)
		d += count
	}
}

// piece is the columns [from, to) of a strip, which lie in one row of the output.
type piece struct {
	from, to int
	start    [3]int // the kernel's position in the image for column from
}

// Pack writes width output positions for depths [k, k+n).
func (m *Image) Pack(dst []float32, width, first, k, n int) {
	if m.shifts(width, first) {
		m.packShifted(dst, width, first, k, n)
		return
	}
	if width > widest {
		m.packWide(dst, width, first, k, n)
		return
	}
	var list [widest]piece
	pieces := m.pieces(list[:], width, first)
	m.packPieces(dst, pieces, width, k, n)
}

func (m *Image) packPieces(dst []float32, pieces []piece, width, k, n int) {
	if pieces[len(pieces)-1].to < width {
		clear(dst)
	}
	taps := m.taps()
	fast := m.gathers(pieces, width)
	if m.byTap() {
		m.eachTap(k, n, func(behind, tap, channel, count int) {
			if fast {
				m.gather(dst[behind*width:], pieces, width, width, tap, channel, count)
			} else {
				m.copy(dst[behind*width:], pieces, width, width, tap, channel, count)
			}
		})
		return
	}
	// Depth k is tap k%taps of channel k/taps. The channels of one tap are packed
	// together, since they have the same layout.
	for t := range min(taps, n) {
		depth := k + t
		tap, channel := depth%taps, depth/taps
		count := cuts(n-t, taps)
		if fast {
			m.gather(dst[t*width:], pieces, width, taps*width, tap, channel, count)
		} else {
			m.copy(dst[t*width:], pieces, width, taps*width, tap, channel, count)
		}
	}
}

// packWide is Pack for more columns than a micro-kernel has.
func (m *Image) packWide(dst []float32, width, first, k, n int) {
	var list [mostAcross]piece
	m.packPieces(dst, m.pieces(list[:], width, first), width, k, n)
}

// pieces cuts a strip at the ends of the output's rows.
func (m *Image) pieces(list []piece, width, first int) []piece {
	width = min(width, m.Out[0]*m.Out[1]*m.Out[2]-first)
	w := first % m.Out[2]
	h := first / m.Out[2] % m.Out[1]
	d := first / m.Out[2] / m.Out[1]
	n := 0
	for c := 0; c < width; n++ {
		length := min(width-c, m.Out[2]-w)
		list[n] = piece{c, c + length, [3]int{d*m.Stride[0] - m.Pad[0], h*m.Stride[1] - m.Pad[1], w*m.Stride[2] - m.Pad[2]}}
		c, w = c+length, 0
		if h++; h == m.Out[1] {
			h = 0
			d++
		}
	}
	return list[:n]
}

// see returns the columns [from, to) of a piece for which a tap lies in the image, and
// the tap's offset in the channel for column 0 of the strip.
func (m *Image) see(p *piece, kd, kh, kw int) (from, to, at int) {
	d, h := p.start[0]+kd*m.Dilation[0], p.start[1]+kh*m.Dilation[1]
	if uint(d) >= uint(m.In[0]) || uint(h) >= uint(m.In[1]) {
		return 0, 0, 0
	}
	w, s := p.start[2]+kw*m.Dilation[2], m.Stride[2]
	from, to = p.from, p.to
	if w < 0 {
		from += cuts(-w, s)
	}
	if last := w + (p.to-p.from-1)*s; last >= m.In[2] {
		to -= cuts(last-m.In[2]+1, s)
	}
	if from >= to {
		return 0, 0, 0
	}
	_, plane := m.strides()
	return from, to, d*plane + h*m.In[2] + w - p.from*s
}

func (m *Image) tap(tap int) (kd, kh, kw int) {
	return tap / m.Kernel[2] / m.Kernel[1], tap / m.Kernel[2] % m.Kernel[1], tap % m.Kernel[2]
}

// copy writes the elements that one tap reads in count channels. The rows of dst are step
// apart.
func (m *Image) copy(dst []float32, pieces []piece, width, step, tap, channel, count int) {
	kd, kh, kw := m.tap(tap)
	volume, _ := m.strides()
	s, end := m.Stride[2], 0
	for i := range pieces {
		from, to, at := m.see(&pieces[i], kd, kh, kw)
		end = pieces[i].to
		for c := range count {
			row := dst[c*step+pieces[i].from : c*step+end]
			if to-from < len(row) {
				clear(row)
			}
			row = row[max(from-pieces[i].from, 0):max(to-pieces[i].from, 0)]
			base := (channel+c)*volume + at + from*s
			switch {
			case s == 1:
				copy(row, unsafe.Slice(float(m.At, 4*base), len(row)))
			default:
				for x := range row {
					row[x] = *float(m.At, 4*(base+x*s))
				}
			}
		}
	}
}
