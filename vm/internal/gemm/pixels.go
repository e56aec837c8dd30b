package gemm

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// BytePixels is the A of a convolution of 8-bit integers in NHWC: a row for each output
// position, a column for each tap and then each channel. It is widened straight from the
// image. Outside of the image it holds the zero point.
type BytePixels struct {
	Image  // At is the first pixel
	Signed bool
	Zero   int16
}

func (m *BytePixels) rows(side []int16, first, n, k, deep int) (unsafe.Pointer, int) {
	length := 2 * cuts(deep, 2)
	flat := Bytes{Len: 1, Deep: 1, Signed: m.Signed, Zeros: []int16{m.Zero}}
	m.each(first, n, k, deep, func(row, behind, count int, from unsafe.Pointer) {
		to := side[row*length+behind:][:count]
		if from == nil {
			clear(to)
			return
		}
		flat.At = from
		flat.widen(to, 0, 0, count)
	})
	if deep < length {
		for r := range n {
			side[r*length+deep] = 0
		}
	}
	return unsafe.Pointer(unsafe.SliceData(side)), 2 * length
}

// sign writes one row at depths [k, k+deep) as signed bytes, and 0 up to the end of dst.
// It returns their sum.
func (m *BytePixels) sign(dst []byte, i, k, deep int) int32 {
	flat, sum := Bytes{Len: 1, Deep: 1, Signed: m.Signed}, int32(0)
	m.each(i, 1, k, deep, func(_, behind, count int, from unsafe.Pointer) {
		to := dst[behind:][:count]
		if from == nil {
			pad := byte(m.Zero) ^ byte(flat.unsign())
			for x := range to {
				to[x] = pad
			}
			sum += int32(int8(pad)) * int32(count)
			return
		}
		flat.At = from
		sum += flat.sign(to, 0, 0, count)
	})
	clear(dst[deep:])
	return sum
}

func (m *BytePixels) zero(int) int16 { return m.Zero + int16((&Bytes{Signed: m.Signed}).flip()) }

// each calls f for the pieces of rows [first, first+n) at depths [k, k+deep) that lie
// together in the image. A piece is count bytes of a row of the matrix, from the given depth
// behind k on, or nil outside of the image. Neighbouring taps of a row of the image are one
// piece.
func (m *BytePixels) each(first, n, k, deep int, f func(row, behind, count int, from unsafe.Pointer)) {
	c := m.Channels
	for r := range n {
		o := first + r
		w := o%m.Out[2]*m.Stride[2] - m.Pad[2]
		h := o/m.Out[2]%m.Out[1]*m.Stride[1] - m.Pad[1]
		d := o/m.Out[2]/m.Out[1]*m.Stride[0] - m.Pad[0]
		for behind := 0; behind < deep; {
			tap, channel := (k+behind)/c, (k+behind)%c
			kd, kh, kw := m.tap(tap)
			x, y, z := w+kw*m.Dilation[2], h+kh*m.Dilation[1], d+kd*m.Dilation[0]
			taps := 1 // of this row of the kernel, together
			seen := uint(z) < uint(m.In[0]) && uint(y) < uint(m.In[1]) && uint(x) < uint(m.In[2])
			if seen && m.Dilation[2] == 1 {
				taps = min(m.Kernel[2]-kw, m.In[2]-x)
			}
			count := min(taps*c-channel, deep-behind)
			var from unsafe.Pointer
			if seen {
				from = unsafe.Add(m.At, ((z*m.In[1]+y)*m.In[2]+x)*c+channel)
			}
			f(r, behind, count, from)
			behind += count
		}
	}
}

// ByteColumns says how the columns of a product become bytes: each sum plus the bias of
// its column, modulo 2³², times its scale, is kept in the range of the type, and rounded to
// even.
type ByteColumns struct {
	Biases []int32
	Scales []float32
	To     simd.Byte
}

// mostColumnDepth leaves room for a few whole rows of A.
const mostColumnDepth = 1 << 13

// NarrowsColumns reports whether ColumnBytes computes the parts of this product.
func (p *Integer) NarrowsColumns() bool {
	_, left := p.A.(*QuadRows)
	_, right := p.B.(*QuadColumns)
	return !left && !right && p.K > 0 && p.K <= mostColumnDepth
}

// ColumnBytes is Tile for bytes: it rounds 16 columns at a time, whose sums then stay in
// the cache. The product must be one that NarrowsColumns.
func (p *Integer) ColumnBytes(tile int, c unsafe.Pointer, stride int, to *ByteColumns, scratch unsafe.Pointer) {
	i0, j0, m, n := p.Block(tile)
	const (
		strips = 2 * mostDepth * integerColumns
		block  = tileRows * integerColumns
	)
	room := unsafe.Slice((*int16)(scratch), ScratchBytes/2)
	strip, side := room[:strips], room[strips+2*block:]
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&room[strips])), block)
	stage := unsafe.Slice((*byte)(unsafe.Add(scratch, ScratchBytes)), stageBytes)

	pairs := cuts(p.K, 2)
	step := 2 * depthOf(pairs)
	most := min(tileRows, max(1, len(side)/(2*pairs)/12*12)) // rows of A that fit, in all their depth
	w := panel{cRow: 4 * integerColumns, aDeep: 4, bDeep: 4 * integerColumns, c: unsafe.Pointer(unsafe.SliceData(sums))}
	for i := 0; i < m; i += most {
		w.rows = min(most, m-i)
		var a unsafe.Pointer
		a, w.aRow = p.A.rows(side, i0+i, w.rows, 0, p.K)
		w.aStrip = pairsHeight() * w.aRow
		for j := 0; j < n; j += integerColumns {
			if p.Stop != nil && p.Stop.Stopping() {
				return
			}
			w.columns, w.flags = min(integerColumns, n-j), 0
			for k := 0; k < p.K; k += step {
				deep := min(step, p.K-k)
				w.depth, w.a, w.b = cuts(deep, 2), unsafe.Add(a, 2*k), p.B.columns(strip, stage, j0+j, k, deep)
				w.runPairs()
				w.flags = flagBeta
			}
			bytes := unsafe.Slice((*byte)(unsafe.Add(c, i*stride+j)), (w.rows-1)*stride+w.columns)
			simd.RequantizeColumns(bytes, sums, to.Biases[j0+j:][:w.columns], to.Scales[j0+j:], w.rows, stride, integerColumns, to.To)
		}
	}
}

// DepthwisePixels is the depthwise convolution of bytes whose channels are neighbours in
// memory, in two spatial axes. It computes 32 channels at a time, a block. The last block
// overlaps the one before if the channels are no multiple of 32.
type DepthwisePixels struct {
	Image          // without At; Channels is their distance from pixel to pixel
	Signed bool    // the image
	Blocks []int32 // BlocksLen numbers, for SetChannel
	To     simd.Byte
}

// blockChannels is the number of channels in a block. A block has, in the order of
// blockChannel, their biases, their scales, and for each two taps the weights in pairs of
// int16. The last pair may end with 0.
const blockChannels = 32

// blockChannel is the channel at place i of a block: the halves of a vector of bytes are
// interleaved separately.
func blockChannel(i int) int { return i&3 | i>>1&12 | i<<2&16 }

func (m *DepthwisePixels) pairs() int { return cuts(m.Kernel[1]*m.Kernel[2], 2) }

func (m *DepthwisePixels) blockLen() int { return blockChannels * (2 + m.pairs()) }

// BlocksLen is the length of the blocks.
func (m *DepthwisePixels) BlocksLen() int { return cuts(m.Channels, blockChannels) * m.blockLen() }

// PadLen is the number of bytes that surround the image: they hold its zero point.
func (m *DepthwisePixels) PadLen() int { return ((m.Out[2]-1)*m.Stride[2] + 1) * m.Channels }

// CanWeigh reports whether Rows computes this convolution.
func (m *DepthwisePixels) CanWeigh() bool {
	return m.Channels >= blockChannels && m.In[0] == 1 && m.Out[0] == 1 && m.Kernel[0] == 1 && m.Pad[0] == 0 && m.Kernel[1]*m.Kernel[2] <= mostTaps
}

// SetBlocks fills the blocks. of returns the weights of a channel, less their zero point,
// and its bias and scale; less is the zero point of the image.
func (m *DepthwisePixels) SetBlocks(less int32, of func(channel int) (weights []int16, bias int32, scale float32)) {
	if m.Signed {
		less += 128 // the bytes are made unsigned
	}
	clear(m.Blocks)
	for b := range cuts(m.Channels, blockChannels) {
		block := m.Blocks[b*m.blockLen():][:m.blockLen()]
		for i := range blockChannels {
			weights, bias, scale := of(min(blockChannels*b, m.Channels-blockChannels) + blockChannel(i))
			for t, w := range weights {
				bias -= less * int32(w)
				block[blockChannels*(2+t/2)+i] |= int32(uint32(uint16(w)) << (t % 2 * 16))
			}
			block[i], block[blockChannels+i] = bias, int32(math.Float32bits(scale))
		}
	}
}

// weighing holds the arguments of the functions that compute pixels. Package asm addresses
// the fields by their offsets.
type weighing struct {
	segments        *segment
	count           int // of segments, 1 or more
	block           *int32
	pairs, channels int
	step, dstStep   int // bytes from one pixel to the next
	low, high       float32
	zero            int32
}

// segment is pixels of a row of the output which read the same taps.
type segment struct {
	dst    unsafe.Pointer
	taps   *unsafe.Pointer // what each tap reads for the first pixel
	pixels int
}

// Limits of the rows that are computed together, one block of channels after the other: the
// pixels' cache lines stay in the first-level cache, and the taps on the stack.
const (
	mostLines = 256
	mostSeen  = 768 // taps
)

// Rows computes rows [h, end) of the output. in is the first pixel of the image, and out
// that of the output; pad has PadLen bytes.
func (m *DepthwisePixels) Rows(out, in, pad unsafe.Pointer, h, end int) {
	var (
		seen [mostSeen]unsafe.Pointer
		list [mostSeen / 2]segment
	)
	pairs := m.pairs()
	p := weighing{
		segments: &list[0], block: &m.Blocks[0], pairs: pairs, channels: m.Channels,
		step: m.Stride[2] * m.Channels, dstStep: m.Channels, zero: m.To.Zero,
	}
	p.low, p.high = m.To.Span()
	// For these pixels every column of the kernel lies in the image.
	from, to := 0, m.Out[2]
	for kw := range m.Kernel[2] {
		left, right := within(m.Pad[2]-kw*m.Dilation[2], m.Stride[2], m.In[2], m.Out[2])
		from, to = max(from, left), min(to, right)
	}
	lines := 0
	for ; h < end; h++ {
		for w, pixels := 0, 0; w < m.Out[2]; w += pixels {
			if p.count > 0 && (lines > mostLines || 2*pairs*(p.count+1) > mostSeen) {
				p.run(m.Signed)
				p.count, lines = 0, 0
			}
			pixels = 1
			if w == from && from < to {
				pixels = to - from
			}
			at := seen[2*pairs*p.count:][:2*pairs]
			list[p.count] = segment{unsafe.Add(out, (h*m.Out[2]+w)*m.Channels), &at[0], pixels}
			p.count++
			lines += pixels * m.Stride[1] * m.Stride[2]
			at[2*pairs-1] = pad
			m.see(at, in, pad, h*m.Stride[1]-m.Pad[1], w*m.Stride[2]-m.Pad[2])
		}
	}
	if p.count > 0 {
		p.run(m.Signed)
	}
}

// see lists what the taps read if the kernel's corner lies at (y, x).
func (m *DepthwisePixels) see(at []unsafe.Pointer, in, pad unsafe.Pointer, y, x int) {
	t := 0
	for kh := range m.Kernel[1] {
		y := y + kh*m.Dilation[1]
		for kw := range m.Kernel[2] {
			x := x + kw*m.Dilation[2]
			at[t] = pad
			if uint(y) < uint(m.In[1]) && uint(x) < uint(m.In[2]) {
				at[t] = unsafe.Add(in, (y*m.In[2]+x)*m.Channels)
			}
			t++
		}
	}
}

// plain computes pixels in Go.
func (p *weighing) plain(signed bool) {
	flip := byte(0)
	if signed {
		flip = 0x80
	}
	length := blockChannels * (2 + p.pairs)
	blocks := unsafe.Slice(p.block, cuts(p.channels, blockChannels)*length)
	for _, s := range unsafe.Slice(p.segments, p.count) {
		for b := range cuts(p.channels, blockChannels) {
			for i := range s.pixels {
				p.block32(&s, i, min(blockChannels*b, p.channels-blockChannels), blocks[b*length:][:length], flip)
			}
		}
	}
}

// block32 computes the channels of a block, from first on, of pixel i of a segment.
func (p *weighing) block32(s *segment, i, first int, block []int32, flip byte) {
	taps := unsafe.Slice(s.taps, 2*p.pairs)
	for c := range blockChannels {
		at, sum := first+blockChannel(c), block[c]
		for t := range p.pairs {
			w := block[blockChannels*(2+t)+c]
			x := *(*byte)(unsafe.Add(taps[2*t], i*p.step+at)) ^ flip
			y := *(*byte)(unsafe.Add(taps[2*t+1], i*p.step+at)) ^ flip
			sum += int32(x)*int32(int16(w)) + int32(y)*(w>>16)
		}
		units := float32(sum) * math.Float32frombits(uint32(block[blockChannels+c]))
		if !(units > p.low) { // or NaN
			units = p.low
		}
		*(*byte)(unsafe.Add(s.dst, i*p.dstStep+at)) = byte(int32(math.RoundToEven(float64(min(units, p.high)))) + p.zero)
	}
}
