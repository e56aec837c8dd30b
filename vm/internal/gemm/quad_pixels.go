package gemm

import (
	"encoding/binary"
	"unsafe"
)

// QuadPixels is a convolution of bytes with VNNI that writes pixels whose channels are neighbours
// (NHWC). A pixel of the output is a row of a product: each four bytes that it reads, a quad, meet
// four signed weights of each channel. Where a quad lies is an offset from the pixel's first, so
// nothing is gathered: the rows of the image are read in place, or are copied with their padding,
// once for all taps.
//
// Its tiles round their sums to bytes in registers, and do not keep them in the range of int32
// before: the numbers must be Fitting.
type QuadPixels struct {
	Image       // of two spatial axes
	Planes bool // the image is in NCHW
	Signed bool // the image
	N      int  // channels of the output

	runs    int     // pieces of the image under the kernel whose bytes are neighbours
	run     int     // bytes of such a piece
	element int     // bytes of the image from one column to the next
	pitch   int     // from one row to the next, of the copy or of the image
	deltas  []int32 // from a quad to the next
	copied  bool
	flat    bool // pixels of all rows have the same distance, in the image and in the output
}

const (
	quadStrip = 2 * integerColumns // columns that tiles compute at once
	// Bytes of the image and the output in a band, which stays in the first-level cache; or in the second
	// one, so that many weights are read less often.
	quadBand, largeQuadBand = 24 << 10, 96 << 10
	heavyWeights            = 64 << 10
	mostQuadDepth           = 1 << 16 // bytes under the kernel
)

// Fitting reports whether sums of so many products, of bytes and weights, times a scale stay in the
// range of int32, a bias included.
func Fitting(products int, bias int32, scale float32) bool {
	most := min(float64(products)*255*128+max(float64(bias), -float64(bias)), 1<<31)
	return most*max(float64(scale), -float64(scale)) < 1<<30 // not if the scale is NaN
}

// Prepare reports whether this machine computes this convolution. The other methods need it.
func (d *QuadPixels) Prepare() bool {
	if !Quads() || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 || d.Pad[0] != 0 || d.Channels < 1 || d.N < 1 {
		return false
	}
	taps := d.Kernel[1] * d.Kernel[2]
	if taps < 1 || taps > mostTaps || taps*d.Channels > mostQuadDepth || d.In[1]*d.In[2]*d.Out[1]*d.Out[2] == 0 {
		return false
	}
	d.element, d.run, d.runs = d.Channels, d.Channels, taps
	if d.Planes {
		d.element, d.run, d.runs = 1, 1, taps*d.Channels
	}
	if d.Dilation[2] == 1 {
		d.run, d.runs = d.run*d.Kernel[2], d.runs/d.Kernel[2]
	}
	reachX := (d.Out[2]-1)*d.Stride[2] + (d.Kernel[2]-1)*d.Dilation[2] + 1
	reachY := (d.Out[1]-1)*d.Stride[1] + (d.Kernel[1]-1)*d.Dilation[1] + 1
	padded := d.Pad[1] != 0 || d.Pad[2] != 0 || reachX > d.In[2] || reachY > d.In[1]
	d.copied = padded || d.Signed || d.run%4 != 0 || d.Planes
	d.pitch = d.In[2] * d.element
	if padded {
		d.pitch = reachX * d.element
	}
	d.flat = taps == 1 && d.Stride[1] == 1 && d.Stride[2] == 1 && !padded
	d.setDeltas()
	return true
}

func (d *QuadPixels) quadsOfRun() int { return cuts(d.run, 4) }

// Quads is the number of quads of a pixel.
func (d *QuadPixels) Quads() int { return d.runs * d.quadsOfRun() }

// setDeltas finds the offsets of the quads. A plane of the copy has as many rows as a band reads, so
// bandRows must not change.
func (d *QuadPixels) setDeltas() {
	offsets := make([]int32, 0, d.Quads()+1)
	for r := range d.runs {
		channel, kh, kw := d.corner(r)
		at := (channel*d.rowsOf(d.bandRows())+kh*d.Dilation[1])*d.pitch + kw*d.Dilation[2]*d.element
		for q := range d.quadsOfRun() {
			offsets = append(offsets, int32(at+4*q))
		}
	}
	for i := range len(offsets) - 1 {
		offsets[i] = offsets[i+1] - offsets[i]
	}
	d.deltas = offsets
}

// corner is the plane and the tap under which a run begins.
func (d *QuadPixels) corner(run int) (channel, kh, kw int) {
	if d.Dilation[2] != 1 {
		kw, run = run%d.Kernel[2], run/d.Kernel[2]
	}
	return run / d.Kernel[1], run % d.Kernel[1], kw
}

// weight is where the weight lies that meets byte i of a run, in a column of weights.
func (d *QuadPixels) weight(run, i int) int {
	channel, kh, kw := d.corner(run)
	if d.Planes {
		kw += i
	} else {
		channel, kw = i%d.Channels, kw+i/d.Channels
	}
	return (channel*d.Kernel[1]+kh)*d.Kernel[2] + kw
}

// rowsOf is the number of rows of the image that so many rows of the output read.
func (d *QuadPixels) rowsOf(rows int) int {
	return (rows-1)*d.Stride[1] + (d.Kernel[1]-1)*d.Dilation[1] + 1
}

// bandRows is the most rows of the output that are computed together.
func (d *QuadPixels) bandRows() int {
	channels := 1
	if d.Planes {
		channels = d.Channels
	}
	row, band := d.Stride[1]*d.pitch*channels+d.Out[2]*min(d.N, quadStrip), quadBand
	if d.N*d.Quads()*4 > heavyWeights {
		band = largeQuadBand
	}
	return min(d.Out[1], max(1, band/row))
}

// ScratchBytes is the scratch of each worker: the copy of a band. A quad may reach behind it.
func (d *QuadPixels) ScratchBytes() int {
	if !d.copied {
		return 0
	}
	channels := 1
	if d.Planes {
		channels = d.Channels
	}
	return channels*d.rowsOf(d.bandRows())*d.pitch + 4
}

// strips is the number of strips of columns.
func (d *QuadPixels) strips() int { return cuts(d.N, quadStrip) }

// stripColumns is the room for a strip: the last one may have half of it.
func (d *QuadPixels) stripColumns(strip int) int {
	if d.N-strip*quadStrip <= integerColumns {
		return integerColumns
	}
	return quadStrip
}

// Columns is the number of biases and scales, those of columns behind the last included.
func (d *QuadPixels) Columns() int { return cuts(d.N, integerColumns) * integerColumns }

// WeightBytes is the size of the packed weights and of their sums.
func (d *QuadPixels) WeightBytes() int { return 4 * d.Columns() * (d.Quads() + 1) }

// Sums returns the sum of each column of packed weights.
func (d *QuadPixels) Sums(packed unsafe.Pointer) []int32 {
	return unsafe.Slice((*int32)(unsafe.Add(packed, 4*d.Columns()*d.Quads())), d.Columns())
}

// Pack writes weights, which begin column by column in the order of a Conv's, as WeightBytes bytes:
// strip by strip, each four weights of a column together. flip makes them signed bytes.
func (d *QuadPixels) Pack(dst, weights unsafe.Pointer, flip byte, run Packing) {
	depth, sums := d.Channels*d.Kernel[1]*d.Kernel[2], d.Sums(dst)
	from, flips := unsafe.Slice((*byte)(weights), d.N*depth), 0x01010101*uint32(flip)
	clear(unsafe.Slice((*byte)(dst), 4*d.Columns()*d.Quads()))
	clear(sums)
	places := d.places()
	for strip := range d.strips() {
		if run != nil && run.Stopping() {
			return
		}
		size, first := d.stripColumns(strip), strip*quadStrip
		to := unsafe.Slice((*uint32)(unsafe.Add(dst, 4*first*d.Quads())), size*d.Quads())
		for j := range min(size, d.N-first) {
			column, sum := from[(first+j)*depth:][:depth], int32(0)
			for q, at := range places {
				quad := uint32(0)
				if at == [4]int32{at[0], at[0] + 1, at[0] + 2, at[0] + 3} {
					quad = binary.LittleEndian.Uint32(column[at[0]:]) ^ flips
				} else {
					for i, w := range at {
						if w >= 0 {
							quad |= uint32(column[w]^flip) << (8 * i)
						}
					}
				}
				sum += int32(int8(quad)) + int32(int8(quad>>8)) + int32(int8(quad>>16)) + int32(quad)>>24
				to[q*size+j] = quad
			}
			sums[first+j] = sum
		}
	}
}

// places lists where the weights of each quad lie in a column of weights; -1 stands for none.
func (d *QuadPixels) places() [][4]int32 {
	list := make([][4]int32, d.Quads())
	for q := range list {
		for i := range 4 {
			at := q%d.quadsOfRun()*4 + i
			list[q][i] = -1
			if at < d.run {
				list[q][i] = int32(d.weight(q/d.quadsOfRun(), at))
			}
		}
	}
	return list
}

// QuadColumnBytes says how the columns of QuadPixels become bytes: the bias is added to the sum of
// the products of weights and unsigned bytes, and the sum times the scale is rounded to even, Zero
// added, and the result kept in the range of the type.
type QuadColumnBytes struct {
	Weights   unsafe.Pointer
	Biases    []int32
	Scales    []float32
	Pad       byte // the zero point of the image, as it is
	Zero      int32
	SignedOut bool
}

// Parts is into how many parts the rows and the strips are divided for some workers.
func (d *QuadPixels) Parts(workers int) (bands, groups int) {
	const leastWork = 1 << 19 // multiplications: some three microseconds
	bands, groups = cuts(d.Out[1], d.bandRows()), 1
	work := d.Out[1] * d.Out[2] * d.Quads() * 4 * d.Columns()
	most := min(2*workers, max(1, work/leastWork))
	if workers == 1 || most == 1 {
		return bands, 1
	}
	// Workers that share the rows read all weights each, and those that share the columns the whole
	// image; and what they write, the next ones read by rows.
	if d.WeightBytes() > d.In[1]*d.In[2]*d.Channels+d.Out[1]*d.Out[2]*d.N {
		return bands, min(most, d.strips())
	}
	return max(bands, min(most, d.Out[1])), 1
}

// Part computes one of bands x groups parts: rows of the output, of some of its columns. out and in
// are the first bytes of the images.
func (d *QuadPixels) Part(part, bands, groups int, out, in, scratch unsafe.Pointer, c *QuadColumnBytes) {
	band, group := part%bands, part/bands
	h, end := d.Out[1]*band/bands, d.Out[1]*(band+1)/bands
	from, to := d.strips()*group/groups, d.strips()*(group+1)/groups
	d.rows(h, end, from, to, out, in, scratch, c)
}

// rows computes rows [h, end) of the output, of strips [from, to).
func (d *QuadPixels) rows(h, end, from, to int, out, in, scratch unsafe.Pointer, c *QuadColumnBytes) {
	src := unsafe.Add(in, h*d.Stride[1]*d.pitch)
	if d.copied {
		src = scratch
		d.copyBand(scratch, in, h, end, c.Pad)
	}
	p := quadTiles{
		step: d.Stride[2] * d.element, dstStep: d.N, deltas: unsafe.Pointer(&d.deltas[0]), count: len(d.deltas), words: int16(c.Zero),
	}
	p.deltas = unsafe.Add(p.deltas, 4*p.count)
	if c.SignedOut {
		p.words, p.flip = p.words+128, 0x80
	}
	pixels, rows := d.Out[2], end-h
	if d.flat {
		pixels, rows = pixels*rows, 1
	}
	dst := unsafe.Add(out, h*d.Out[2]*d.N)
	for strip := from; strip < to; strip++ {
		first, size := strip*quadStrip, d.stripColumns(strip)
		p.weights, p.biases, p.scales = unsafe.Add(c.Weights, 4*first*d.Quads()), unsafe.Pointer(&c.Biases[first]), unsafe.Pointer(&c.Scales[first])
		p.mask = 1<<min(size, d.N-first) - 1
		for r := range rows {
			p.row(unsafe.Add(dst, r*d.Out[2]*d.N+first), unsafe.Add(src, r*d.Stride[1]*d.pitch), pixels, size)
		}
	}
}

// copyBand copies the rows that rows [h, end) of the output read, with their padding, as unsigned
// bytes.
func (d *QuadPixels) copyBand(to, in unsafe.Pointer, h, end int, pad byte) {
	planes, flip := 1, byte(0)
	if d.Planes {
		planes = d.Channels
	}
	if d.Signed {
		flip = 0x80
	}
	top, n := h*d.Stride[1]-d.Pad[1], d.rowsOf(end-h)
	left := min(d.Pad[2]*d.element, d.pitch)
	width := min(d.In[2]*d.element, d.pitch-left)
	for c := range planes {
		for r := range n {
			row := unsafe.Slice((*byte)(unsafe.Add(to, (c*d.rowsOf(d.bandRows())+r)*d.pitch)), d.pitch)
			if uint(top+r) >= uint(d.In[1]) {
				fillBytes(row, pad^flip)
				continue
			}
			fillBytes(row[:left], pad^flip)
			copyFlipped(row[left:left+width], unsafe.Add(in, (c*d.In[1]+top+r)*d.In[2]*d.element), flip)
			fillBytes(row[left+width:], pad^flip)
		}
	}
}

// fillBytes fills as many bytes again as are filled.
func fillBytes(d []byte, b byte) {
	if len(d) == 0 {
		return
	}
	d[0] = b
	for n := 1; n < len(d); n *= 2 {
		copy(d[n:], d[:n])
	}
}

// copyFlipped copies bytes XORed with flip.
func copyFlipped(d []byte, from unsafe.Pointer, flip byte) {
	s, done := unsafe.Slice((*byte)(from), len(d)), 0
	if flip == 0 {
		copy(d, s)
		return
	}
	if done = len(d) &^ 31; done > 0 {
		flipRowAVX2(&d[0], &s[0], done, flip, 0)
	}
	for i := done; i < len(d); i++ {
		d[i] = s[i] ^ flip
	}
}

// quadTiles holds the arguments of the functions that compute tiles of pixels. Package asm addresses
// the fields by their offsets.
type quadTiles struct {
	dst, src       unsafe.Pointer // of the first pixel
	step, dstStep  int            // bytes from a pixel to the next
	deltas         unsafe.Pointer // behind the last
	count          int            // of the quads
	weights        unsafe.Pointer
	biases, scales unsafe.Pointer
	tiles          int
	mask           uint64 // of the columns
	words          int16  // added to the rounded sums, which are then unsigned bytes
	flip           byte   // and this applied
}

// row computes pixels that are equally far from each other. The last tile may overlap the one before.
func (p *quadTiles) row(dst, src unsafe.Pointer, pixels, columns int) {
	run := func(rows, from, tiles int) {
		p.dst, p.src, p.tiles = unsafe.Add(dst, from*p.dstStep), unsafe.Add(src, from*p.step), tiles
		p.run(rows, columns)
	}
	done := 0
	if tiles := pixels / 12; tiles > 0 {
		run(12, 0, tiles)
		done = 12 * tiles
	}
	for rest := pixels - done; rest > 0; rest = pixels - done {
		rows := cuts(rest, 3) * 3
		if rows > pixels {
			rows -= 3
		}
		if rows == 0 {
			run(1, done, rest)
			return
		}
		done = min(done, pixels-rows)
		run(rows, done, 1)
		done += rows
	}
}
