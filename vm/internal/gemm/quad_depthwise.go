package gemm

import (
	"math"
	"unsafe"
)

// QuadDepthwise is DepthwisePixels with VNNI: four bytes of a channel, from four rows of the image,
// meet four weights of a column of the kernel. With stride 1 two rows of the output share them.
// Blocks are of 64 channels, and at last of 32 channels of two pixels each; the last may overlap
// those before. As in QuadPixels, the numbers must be Fitting.
type QuadDepthwise struct {
	Image          // without At; Channels is their distance from pixel to pixel
	Signed bool    // the image
	Table  []int32 // TableLen numbers, for SetTable
	Zero   int32   // of the output
	// SignedOut is the type of the output.
	SignedOut bool
}

// quadBlock is channels that are computed at once, from first on, in every blockth place.
type quadBlock struct {
	first int
	twice bool // 32 channels
	count int  // blocks of 64 channels, one after the other
}

const wholeQuadBlock, halfQuadBlock = 64, 32

// Prepare reports whether this machine computes this convolution. The other methods need it.
func (d *QuadDepthwise) Prepare() bool {
	return Quads() && d.Channels >= halfQuadBlock && d.In[0] == 1 && d.Out[0] == 1 && d.Kernel[0] == 1 && d.Pad[0] == 0 &&
		d.In[1]*d.In[2]*d.Out[1]*d.Out[2] > 0 && d.Kernel[1]*d.Kernel[2] <= mostTaps && 4*d.quads() <= mostSeen
}

// each calls f for the blocks, with the place of the first of them.
func (d *QuadDepthwise) each(f func(b quadBlock, place int)) {
	whole, rest := d.Channels/wholeQuadBlock, d.Channels%wholeQuadBlock
	if whole > 0 {
		f(quadBlock{0, false, whole}, 0)
	}
	switch {
	case rest == 0:
	case rest <= halfQuadBlock:
		f(quadBlock{d.Channels - halfQuadBlock, true, 1}, whole)
	case whole > 0:
		f(quadBlock{d.Channels - wholeQuadBlock, false, 1}, whole)
	default:
		f(quadBlock{0, true, 1}, 0)
		f(quadBlock{d.Channels - halfQuadBlock, true, 1}, 1)
	}
}

// together is the number of rows of the output that share what they read.
func (d *QuadDepthwise) together() int {
	if d.Stride[1] == 1 && d.Dilation[1] == 1 && d.Out[1] > 1 {
		return 2
	}
	return 1
}

// quadRows is the number of quads in a column of the image, and quads that of a pixel.
func (d *QuadDepthwise) quadRows() int { return cuts(d.Kernel[1]+d.together()-1, 4) }

func (d *QuadDepthwise) quads() int { return d.quadRows() * d.Kernel[2] }

// blockLen is the numbers of a block: for each channel its bias and its scale, and for each quad its
// weights, of each row of the output.
func (d *QuadDepthwise) blockLen() int { return wholeQuadBlock * (2 + d.quads()*d.together()) }

// TableLen is the length of the table.
func (d *QuadDepthwise) TableLen() int {
	return d.blockLen() * (cuts(d.Channels, wholeQuadBlock) + 1)
}

// PadLen is the number of bytes of scratch that Surround fills with what surrounds the image. Behind
// them is room for a row that nobody reads.
func (d *QuadDepthwise) PadLen() int { return ((d.Out[2]-1)*d.Stride[2] + 1) * d.Channels }

// ScratchBytes is the scratch of each worker.
func (d *QuadDepthwise) ScratchBytes() int { return d.PadLen() + d.Channels }

// Surround fills the scratch with what surrounds the image, for any number of calls of Rows.
func (d *QuadDepthwise) Surround(scratch unsafe.Pointer, zero byte) {
	fillBytes(unsafe.Slice((*byte)(scratch), d.PadLen()), zero)
}

// quadChannel is the channel at place i of a block: the instructions interleave each 128 bits for
// themselves.
func quadChannel(i int, twice bool) int {
	lane := i / 4 % 4
	if twice {
		lane %= 2
	}
	return 16*lane + i/16*4 + i%4
}

// SetTable fills the table. of returns the weights of a channel as signed bytes, and its bias and
// scale; zero is the zero point of the image.
func (d *QuadDepthwise) SetTable(zero int32, of func(channel int) (weights []int8, bias int32, scale float32)) {
	if d.Signed {
		zero += 128 // the bytes are made unsigned
	}
	rows := d.together()
	clear(d.Table)
	d.each(func(b quadBlock, place int) {
		for k := range b.count {
			table := d.Table[(place+k)*d.blockLen():][:d.blockLen()]
			for i := range wholeQuadBlock {
				weights, bias, scale := of(b.first + k*wholeQuadBlock + quadChannel(i, b.twice))
				for t, w := range weights {
					bias -= zero * int32(w)
					for r := range rows {
						at := t/d.Kernel[2] + r // the row of the image
						quad := at/4*d.Kernel[2] + t%d.Kernel[2]
						table[wholeQuadBlock*(2+quad*rows+r)+i] |= int32(uint32(uint8(w)) << (at % 4 * 8))
					}
				}
				table[i], table[wholeQuadBlock+i] = bias, int32(math.Float32bits(scale))
			}
		}
	})
}

// quadWeighing holds the arguments of the functions that compute pixels, and quadSegment those of
// pixels of a row of the output, or of two, which read the same taps. Package asm addresses the
// fields by their offsets.
type quadWeighing struct {
	segments      *quadSegment
	count         int // of segments, 1 or more
	block         *int32
	blocks        int
	channel       int // the first
	quads         int
	step, dstStep int // bytes from one pixel to the next
	size          int // of a block
	words         int16
	flip, outFlip byte
}

type quadSegment struct {
	dst, second unsafe.Pointer  // of the first pixel, in either row
	step        int             // of the second row; dstStep is that of the first
	taps        *unsafe.Pointer // what the rows of each quad read for the first pixel
	pixels      int
}

// Rows computes rows [h, end) of the output. in is the first pixel of the image, and out that of the
// output; scratch was surrounded.
func (d *QuadDepthwise) Rows(out, in, scratch unsafe.Pointer, h, end int) {
	var (
		seen [mostSeen]unsafe.Pointer
		list [mostSeen / 4]quadSegment
	)
	together, quads := d.together(), d.quads()
	p := quadWeighing{segments: &list[0], quads: quads, step: d.Stride[2] * d.Channels, dstStep: d.Channels, size: 4 * d.blockLen(), words: int16(d.Zero)}
	if d.Signed {
		p.flip = 0x80
	}
	if d.SignedOut {
		p.words, p.outFlip = p.words+128, 0x80
	}
	// For these pixels every column of the kernel lies in the image.
	from, to := 0, d.Out[2]
	for kw := range d.Kernel[2] {
		left, right := within(d.Pad[2]-kw*d.Dilation[2], d.Stride[2], d.In[2], d.Out[2])
		from, to = max(from, left), min(to, right)
	}
	lines := 0
	for ; h < end; h += together {
		for w, pixels := 0, 0; w < d.Out[2]; w += pixels {
			if p.count > 0 && (lines > mostLines || 4*quads*(p.count+1) > mostSeen) {
				d.run(&p, together)
				p.count, lines = 0, 0
			}
			pixels = 1
			if w == from && from < to {
				pixels = to - from
			}
			at := seen[4*quads*p.count:][:4*quads]
			s := quadSegment{unsafe.Add(out, (h*d.Out[2]+w)*d.Channels), unsafe.Add(scratch, d.PadLen()), 0, &at[0], pixels}
			if h+1 < end {
				s.second, s.step = unsafe.Add(s.dst, d.Out[2]*d.Channels), d.Channels
			}
			list[p.count] = s
			p.count++
			lines += pixels * (3 + together)
			d.see(at, in, scratch, h*d.Stride[1]-d.Pad[1], w*d.Stride[2]-d.Pad[2])
		}
	}
	if p.count > 0 {
		d.run(&p, together)
	}
}

// run computes the segments block by block.
func (d *QuadDepthwise) run(p *quadWeighing, rows int) {
	d.each(func(b quadBlock, place int) {
		p.block, p.blocks, p.channel = &d.Table[place*d.blockLen()], b.count, b.first
		p.run(rows, b.twice)
	})
}

// see lists what the quads read if the kernel's corner lies at (y, x).
func (d *QuadDepthwise) see(at []unsafe.Pointer, in, pad unsafe.Pointer, y, x int) {
	i, reach := 0, d.Kernel[1]+d.together()-1
	for q := range d.quadRows() {
		for kw := range d.Kernel[2] {
			x := x + kw*d.Dilation[2]
			for r := 4 * q; r < 4*q+4; r++ {
				y := y + r*d.Dilation[1]
				at[i] = pad
				if r < reach && uint(y) < uint(d.In[1]) && uint(x) < uint(d.In[2]) {
					at[i] = unsafe.Add(in, (y*d.In[2]+x)*d.Channels)
				}
				i++
			}
		}
	}
}
