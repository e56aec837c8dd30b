package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// partBytes is about how much of a 16-bit image a product widens at once: it stays in the
// second-level cache while its taps are packed.
const partBytes = 1 << 16

// widePart is a part of a 16-bit Image in float32: the rows that some columns read, in the
// channels of a block of depths.
type widePart struct {
	Image        // the part, as the whole image would be: it is packed for columns [from, to) alone
	from, to int // columns
	shift    int // what is subtracted from a depth
	room     []float32
}

// extent is what a block of depths of an image reads for some columns.
type extent struct {
	channel, channels int
	low, high         [2]int // places of the first two axes
}

func (e *extent) volume(m *Image) int {
	return e.channels * max(e.high[0]-e.low[0], 0) * max(e.high[1]-e.low[1], 0) * m.In[2]
}

// extentOf returns what columns [from, to) read at depths [k, k+n).
func (m *Image) extentOf(from, to, k, n int) (e extent) {
	taps := m.taps()
	first, last := [3]int{}, [3]int{m.Kernel[0] - 1, m.Kernel[1] - 1} // of the taps
	switch group := m.Together * taps; {
	case m.Spread: // one tap
		e.channel, e.channels = k%m.Channels, n
		first[0], first[1], _ = m.tap(k / m.Channels)
		last = first
	case group > 0:
		e.channel = k / group * m.Together
		e.channels = cuts(k+n, group)*m.Together - e.channel
	default:
		e.channel = k / taps
		e.channels = cuts(k+n, taps) - e.channel
	}
	plane := m.Out[1] * m.Out[2]
	rows := [2][2]int{{from / plane, (to - 1) / plane}, {0, m.Out[1] - 1}} // of the output
	if rows[0][0] == rows[0][1] && m.In[0] == 1 {
		rows[1] = [2]int{from % plane / m.Out[2], (to - 1) % plane / m.Out[2]}
	}
	for a := range rows {
		e.low[a] = max(rows[a][0]*m.Stride[a]-m.Pad[a]+first[a]*m.Dilation[a], 0)
		e.high[a] = min(rows[a][1]*m.Stride[a]-m.Pad[a]+last[a]*m.Dilation[a]+1, m.In[a])
	}
	if m.In[0] > 1 { // packShifted takes whole planes
		e.low[1], e.high[1] = 0, m.In[1]
	}
	return e
}

// partLen is the size of the room for parts: that of any strip of the given width, and
// partBytes if the image has as much.
func (m *Image) partLen(width int) int {
	taps, depth := m.taps(), m.blockDepth()
	channels := cuts(depth, taps) + 1
	switch {
	case m.Spread:
		channels = depth
	case m.Together > 0:
		channels = (cuts(depth, m.Together*taps) + 1) * m.Together
	}
	reach := func(a, places int) int {
		return min((min(places, m.Out[a])-1)*m.Stride[a]+(m.Kernel[a]-1)*m.Dilation[a]+1, m.In[a])
	}
	rows := cuts(width-1, m.Out[2]) + 1
	planes, lines := reach(0, cuts(width-1, m.Out[1]*m.Out[2])+1), reach(1, rows)
	if m.In[0] > 1 || planes > 1 {
		lines = m.In[1]
	}
	channels = min(channels, m.Channels)
	volume := channels * m.In[0] * m.In[1] * m.In[2]
	return min(volume, max(channels*planes*lines*m.In[2], partBytes/4))
}

// blockDepth is the most depths of a block.
func (m *Image) blockDepth() int {
	if m.Spread {
		return depthOf(m.Channels)
	}
	return depthOf(m.Channels * m.taps())
}

// fill widens what some of the columns [from, to) read at depths [k, k+n): those of a strip of
// the given width at least, and all if there is room.
func (p *widePart) fill(m *Image, from, to, width, k, n int) {
	end := to
	e := m.extentOf(from, end, k, n)
	for e.volume(m) > len(p.room) && end-from > width {
		end = from + cuts((end-from)/2, width)*width
		e = m.extentOf(from, end, k, n)
	}
	p.Image, p.from, p.to = *m, from, end
	p.Format, p.At, p.Channels = Float32, unsafe.Pointer(unsafe.SliceData(p.room)), e.channels
	switch {
	case m.Spread:
		p.shift = k - k/m.Channels*e.channels
	default:
		p.shift = e.channel * m.taps()
	}
	for a := range e.low {
		p.In[a] = max(e.high[a]-e.low[a], 0)
		p.Pad[a] += e.low[a]
	}
	p.Plane = p.In[1] * p.In[2]
	p.Volume = max(p.In[0]*p.Plane, 1)
	volume, plane := m.strides()
	step, count := 1, p.Plane
	if m.Kernel[1] == 1 && m.In[0] == 1 { // rows between those of the output are not read
		step, count = m.Stride[1], p.In[2]
	}
	for d := range p.In[0] {
		for h := 0; h < p.In[1] && count > 0; h += step * (count / p.In[2]) {
			src := unsafe.Add(m.At, 2*(e.channel*volume+(e.low[0]+d)*plane+(e.low[1]+h)*m.In[2]))
			simd.WidenRows(&p.room[d*p.Plane+h*p.In[2]], (*uint16)(src), e.channels, count, p.Volume, volume, m.Format.narrow())
		}
	}
}

// narrowImage returns the side of a product that is a 16-bit image, or nil.
func (p *Product) narrowImage() *Image {
	side := p.B
	if p.Across {
		side = p.A
	}
	if m, is := side.(*Image); is && m.Format != Float32 {
		return m
	}
	return nil
}

// partLen is the size of the room for parts of a 16-bit image; 0: there is none.
func (p *Product) partLen() int {
	m := p.narrowImage()
	if m == nil {
		return 0
	}
	width := levels[chosen].columns
	if p.Across {
		width, _ = p.cut()
		width = min(width, p.M)
	}
	return m.partLen(width)
}

// partRoom is the room for parts in the scratch.
func (p *Product) partRoom(scratch unsafe.Pointer) []float32 {
	n := p.partLen()
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Add(scratch, p.partBehind())), n)
}
