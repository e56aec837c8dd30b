package gemm

import "unsafe"

// shifting holds the arguments of the functions that pack an image tap by tap. Package
// asm addresses the fields by their offsets.
type shifting struct {
	dst              *float32
	src              unsafe.Pointer // of the first channel
	tap, first, end  *shift         // where to begin, and the taps of a channel
	evens            *[16]int32
	second           int // bytes from the first 16 columns to the next 16 in the image
	count            int // depths, 1 or more
	dstStep, srcStep int // bytes from one depth, or channel, to the next
	ahead            int // bytes from what is read to what is prefetched; only with stride 1
}

// shift is what a tap reads for a strip: what lies off bytes after a channel's first
// element, where the bit of the lane is set. With stride 2, the lanes between the columns
// have bits, too, which are not set.
type shift struct {
	off  int
	mask uint64
}

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(shifting{}.evens) ^ 40 | unsafe.Offsetof(shifting{}.second) ^ 48 |
	unsafe.Offsetof(shifting{}.srcStep) ^ 72 | unsafe.Offsetof(shifting{}.ahead) ^ 80 | unsafe.Offsetof(shift{}.mask) ^ 8 | unsafe.Sizeof(shift{}) ^ 16)

//go:noescape
func shift1x1AVX512(p *shifting)

//go:noescape
func shift1x1AVX2(p *shifting)

//go:noescape
func shift1x2AVX2(p *shifting)

//go:noescape
func shift2x1AVX2(p *shifting)

//go:noescape
func shift2x2AVX2(p *shifting)

//go:noescape
func shift1x2AVX512(p *shifting)

//go:noescape
func shift2x1AVX512(p *shifting)

//go:noescape
func shift2x2AVX512(p *shifting)

const (
	mostShifts = 64 // taps of a kernel, enough for 7 x 7
	mostSide   = 16 // taps along one axis
)

// shifts reports whether packShifted can pack a strip that begins at the given column. A
// vector of columns must be evenly spaced in the image: the output's rows, and with more
// than one plane its planes, are as long as the image's, or a plane's rows consist of whole
// vectors.
func (m *Image) shifts(width, first int) bool {
	if chosen == plain || width%laneCount != 0 || m.Kernel[0] > mostSide || m.Kernel[1] > mostSide || m.Kernel[2] > mostSide || m.taps() > mostShifts {
		return false
	}
	same := m.Stride[2] == 1 && m.Stride[1] == 1 && m.In[2] == m.Out[2]
	if m.In[0] != 1 || m.Out[0] != 1 || m.Kernel[0] != 1 || m.Pad[0] != 0 {
		_, plane := m.strides()
		return same && m.Stride[0] == 1 && m.In[1] == m.Out[1] && plane == m.In[1]*m.In[2]
	}
	return same || m.Stride[2] <= 2 && m.Out[2]%laneCount == 0 && first%laneCount == 0
}

// packShifted is Pack for the strips that shifts accepts.
func (m *Image) packShifted(dst []float32, width, first, k, n int) {
	if n == 0 {
		return
	}
	taps := m.taps()
	volume, _ := m.strides()
	var list [mostShifts]shift
	tap := k % taps
	p := shifting{
		src: unsafe.Add(m.At, 4*(k/taps)*volume), tap: &list[tap], first: &list[0],
		end:   (*shift)(unsafe.Add(unsafe.Pointer(&list), taps*int(unsafe.Sizeof(shift{})))),
		evens: &evens, count: n, dstStep: 4 * width, srcStep: 4 * volume,
	}
	for c := 0; c < width; c += widest {
		p.dst = &dst[c]
		from := m.corner(first + c)
		p.second = 4 * (m.corner(first+c+laneCount) - from)
		vectors := min(2, (width-c)/laneCount)
		p.ahead = 4 * laneCount * vectors // the next strip
		if m.collides() {
			p.ahead = channelsAhead * p.srcStep
		}
		m.fillShifts(&list, first+c, vectors*laneCount, from, 4)
		if !m.byTap() {
			p.run(m.Stride[2], vectors)
			continue
		}
		m.eachTap(k, n, func(behind, tap, channel, count int) {
			q := p
			q.dst, q.src, q.count = &dst[behind*width+c], unsafe.Add(m.At, 4*channel*volume), count
			q.tap, q.first = &list[tap], &list[tap]
			q.end = (*shift)(unsafe.Add(unsafe.Pointer(q.tap), unsafe.Sizeof(shift{})))
			q.run(m.Stride[2], vectors)
		})
	}
}

// collides reports whether the same elements of all channels lie in the same sets of the
// caches. Then they cannot be prefetched for the next strip: those of other channels would
// evict them.
func (m *Image) collides() bool {
	volume, _ := m.strides()
	return m.Channels > 8 && volume%1024 == 0
}

const channelsAhead = 4

// run packs vectors of columns that lie stride apart.
func (p *shifting) run(stride, vectors int) {
	switch wide := chosen == avx512; {
	case stride == 1 && vectors == 2 && !wide:
		shift1x2AVX2(p)
	case stride == 1 && !wide:
		shift1x1AVX2(p)
	case vectors == 2 && !wide:
		shift2x2AVX2(p)
	case !wide:
		shift2x1AVX2(p)
	case stride == 1 && vectors == 2:
		shift1x2AVX512(p)
	case stride == 1:
		shift1x1AVX512(p)
	case vectors == 2:
		shift2x2AVX512(p)
	default:
		shift2x1AVX512(p)
	}
}

// corner is the index in a channel of the element that a kernel's first tap reads for an
// output position, or would if it lay in the image.
func (m *Image) corner(column int) int {
	start := m.start(column)
	_, plane := m.strides()
	return start[0]*plane + start[1]*m.In[2] + start[2]
}

// start is the position in the image of a kernel's first tap for an output position.
func (m *Image) start(column int) (at [3]int) {
	w := column % m.Out[2]
	h, d := column/m.Out[2]%m.Out[1], column/m.Out[2]/m.Out[1]
	return [3]int{d*m.Stride[0] - m.Pad[0], h*m.Stride[1] - m.Pad[1], w*m.Stride[2] - m.Pad[2]}
}

// fillShifts sets what each tap reads for the columns [first, first+width); from is the
// corner of the first, and elements have size bytes.
func (m *Image) fillShifts(list *[mostShifts]shift, first, width, from, size int) {
	var planes, rows, columns [mostSide]uint64
	if m.inside(first, width) {
		all := m.lanesOf(0, width)
		for k := range mostSide {
			planes[k], rows[k], columns[k] = all, all, all
		}
	} else {
		m.lanes(first, min(first+width, m.Out[0]*m.Out[1]*m.Out[2]), &planes, &rows, &columns)
	}
	_, plane := m.strides()
	n := 0
	for kd := range m.Kernel[0] {
		for kh := range m.Kernel[1] {
			seen, at := planes[kd]&rows[kh], from+kd*m.Dilation[0]*plane+kh*m.Dilation[1]*m.In[2]
			for kw := range m.Kernel[2] {
				list[n] = shift{size * (at + kw*m.Dilation[2]), seen & columns[kw]}
				n++
			}
		}
	}
}

// lanes sets, for the taps along each axis, the lanes of the columns [first, end) whose tap
// lies in the image as far as this axis is concerned.
func (m *Image) lanes(first, end int, planes, rows, columns *[mostSide]uint64) {
	plane := m.Out[1] * m.Out[2]
	for kd := range m.Kernel[0] {
		low, high := within(m.Pad[0]-kd*m.Dilation[0], m.Stride[0], m.In[0], m.Out[0])
		planes[kd] = m.lanesOf(low*plane-first, min(high*plane, end)-first)
	}
	for kh := range m.Kernel[1] {
		low, high := within(m.Pad[1]-kh*m.Dilation[1], m.Stride[1], m.In[1], m.Out[1])
		for at := first / plane * plane; at < end; at += plane {
			rows[kh] |= m.lanesOf(at+low*m.Out[2]-first, min(at+high*m.Out[2], end)-first)
		}
	}
	for kw := range m.Kernel[2] {
		low, high := within(m.Pad[2]-kw*m.Dilation[2], m.Stride[2], m.In[2], m.Out[2])
		for row := first / m.Out[2] * m.Out[2]; row < end; row += m.Out[2] {
			columns[kw] |= m.lanesOf(row+low-first, row+high-first)
		}
	}
}

// inside reports whether all taps of the columns [first, first+width), of one row of the
// output, lie in the image.
func (m *Image) inside(first, width int) bool {
	start := m.start(first)
	last := start
	last[2] += (width - 1) * m.Stride[2]
	for a := range last {
		if last[a] += (m.Kernel[a] - 1) * m.Dilation[a]; start[a] < 0 || last[a] >= m.In[a] {
			return false
		}
	}
	return first%m.Out[2]+width <= m.Out[2] && first/m.Out[2] < m.Out[0]*m.Out[1]
}

// lanesOf is the mask of the columns [from, to) of a strip, as far as they are in it.
func (m *Image) lanesOf(from, to int) uint64 {
	from, to = min(max(from, 0), widest), min(max(to, 0), widest)
	if from >= to {
		return 0
	}
	bits := uint64(1)<<to - uint64(1)<<from
	if m.Stride[2] == 2 {
		for _, s := range [...]struct {
			by   int
			mask uint64
		}{{16, 0x0000ffff0000ffff}, {8, 0x00ff00ff00ff00ff}, {4, 0x0f0f0f0f0f0f0f0f}, {2, 0x3333333333333333}, {1, 0x5555555555555555}} {
			bits = (bits | bits<<s.by) & s.mask
		}
	}
	return bits
}
