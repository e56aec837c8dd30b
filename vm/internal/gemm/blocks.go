package gemm

import "unsafe"

// BlockLen is the number of channels in a block of an image that is held in blocks: the
// numbers of a pixel that lie side by side, one vector of AVX-512 or two of AVX2.
const BlockLen = 16

// Blocks is the convolution of images in blocks of channels: the image [C, H, W] lies as
// [C/BlockLen, H, W, BlockLen], and so does the result. Strips of pixels are the rows of a
// product whose sums stay in registers, and channels of the result its columns. Pixels are
// read where they lie or, if taps reach beyond the left or right edge, in a copy of some rows
// with zeros beside them. Taps above or below the image are left out.
//
// The terms of a sum are added in the order of an Image with Together = BlockLen, and in
// the same blocks of depths, so the bits are the same.
type Blocks struct {
	Images, Groups    int
	Channels, Columns int // of a group of the image, and of the result: multiples of BlockLen
	In, Out           [2]int
	Kernel            [2]int
	Stride            [2]int
	Dilation          [2]int
	Pad               [2]int // before the image
	Bias              bool
	Act               Activation
	Low, High         float32
	Stop              Stopper

	flat    bool // each output reads the pixel at its place: all rows are one
	apart   bool // pixels are read in a copy
	left    int  // the first tap of a row that reads a pixel for some output, and behind the last
	right   int
	tall    int // rows of the result in a part; in a flat image, pixels
	classes []blockClass
}

// blockClass describes rows of the result for which the same taps lie within the image.
type blockClass struct {
	first, end int // rows of the result
	top        int // the first tap of a column
	steps      []blockStep
	blocks     []int // where each block of depths begins in steps, and the end
}

// blockStep is one tap of a block of channels: offsets in bytes of the pixels, from those of
// the class's first tap, and of the weights.
type blockStep struct{ pixels, weights int }

// blockPanel holds the arguments of a micro-kernel. Package asm addresses the fields by
// their offsets. a and c are no pointers, because the micro-kernel moves them from line to
// line, and in the end beyond the last one.
type blockPanel struct {
	a       uintptr        // the pixels of the first strip
	b       unsafe.Pointer // weights
	c       uintptr        // the result's pixels
	steps   *blockStep
	count   int // steps
	rows    int // pixels of a line
	strip   int // the most pixels of a strip
	aRow    int // bytes from one pixel to the next
	lines   int
	aLine   int
	cLine   int
	block   int            // bytes from one block of the result to the next
	added   int            // bytes from the result to what is added to it
	bias    unsafe.Pointer // of the channels
	flags   int
	vectors int // of the result's channels
	low     float32
	high    float32
}

const (
	blockFirst = 1 << iota // the sums begin
	blockBias
	blockAdded
	blockLow
	blockHigh
)

const (
	blockStripPixels = 14      // of AVX-512
	blockStripAVX2   = 6       // pixels
	blockRoom        = 1 << 18 // bytes of the pixels that a part reads: they stay in the second-level cache
	mostBlockRoom    = 1 << 21 // if a single row needs more
	mostBlockTaps    = 1 << 10
	pixelBytes       = 4 * BlockLen
)

// CanBlock reports whether this machine convolves such images in blocks.
func (b *Blocks) CanBlock() bool {
	if chosen == plain || b.Channels%BlockLen != 0 || b.Columns%BlockLen != 0 || b.Channels == 0 || b.Columns == 0 ||
		b.Kernel[0] < 1 || b.Kernel[1] < 1 || b.Kernel[0] > mostBlockTaps || b.Kernel[1] > mostBlockTaps || b.Kernel[0]*b.Kernel[1] > mostBlockTaps {
		return false
	}
	for a := range 2 {
		if b.Pad[a] < 0 || b.Pad[a] > (b.Kernel[a]-1)*b.Dilation[a] || b.Out[a] < 1 || b.In[a] < 1 {
			return false
		}
	}
	_, copied := b.reads()
	return !copied || b.rowsBytes(1) <= mostBlockRoom
}

// reads reports whether all rows of the image are one, and whether pixels are read in a copy.
func (b *Blocks) reads() (flat, copied bool) {
	one := [2]int{1, 1}
	flat = b.Kernel == one && b.Stride == one && b.Pad == [2]int{} && b.In == b.Out
	return flat, b.Pad[1] > 0 || b.reach() > b.In[1]
}

// reach is the number of pixels from the first to the last that a row of the result reads.
func (b *Blocks) reach() int {
	return (b.Out[1]-1)*b.Stride[1] + (b.Kernel[1]-1)*b.Dilation[1] + 1
}

// rowsBytes is the size of what rows of the result read.
func (b *Blocks) rowsBytes(rows int) int {
	high := min((rows-1)*b.Stride[0]+(b.Kernel[0]-1)*b.Dilation[0]+1, b.In[0])
	return pixelBytes * (b.Channels / BlockLen) * high * b.reach()
}

// Plan decides how to convolve, before anything else is called.
func (b *Blocks) Plan() {
	b.flat, b.apart = b.reads()
	if b.flat {
		b.In = [2]int{1, b.In[0] * b.In[1]}
		b.Out = b.In
		b.tall = evenly(b.Out[1], max(blockRoom/(4*b.Channels), 4*blockStripPixels), 2*blockStripPixels)
	} else {
		b.tall = b.Out[0]
		for b.tall > 1 && b.rowsBytes(b.tall) > blockRoom {
			b.tall--
		}
		b.tall = cuts(b.Out[0], cuts(b.Out[0], b.tall))
	}
	b.classify()
}

// ScratchBytes is the scratch of each worker.
func (b *Blocks) ScratchBytes() int {
	if !b.apart {
		return 0
	}
	return b.rowsBytes(b.tall)
}

// lineBytes is the distance of the rows of what is read.
func (b *Blocks) lineBytes() int {
	if b.apart {
		return pixelBytes * b.reach()
	}
	return pixelBytes * b.In[1]
}

// classify finds the classes of rows, and the taps that lie within the image for some column.
func (b *Blocks) classify() {
	b.left, b.right = b.Kernel[1], 0
	for kw := range b.Kernel[1] {
		if from, to := within(b.Pad[1]-kw*b.Dilation[1], b.Stride[1], b.In[1], b.Out[1]); from < to {
			b.left, b.right = min(b.left, kw), kw+1
		}
	}
	taps := func(oh int) (from, to int) {
		start := oh*b.Stride[0] - b.Pad[0]
		for from < b.Kernel[0] && start+from*b.Dilation[0] < 0 {
			from++
		}
		for to = from; to < b.Kernel[0] && start+to*b.Dilation[0] < b.In[0]; {
			to++
		}
		return from, to
	}
	for oh := 0; oh < b.Out[0]; {
		from, to := taps(oh)
		end := oh + 1
		for end < b.Out[0] {
			if f, t := taps(end); f != from || t != to {
				break
			}
			end++
		}
		c := blockClass{first: oh, end: end, top: from}
		b.list(&c, to)
		b.classes = append(b.classes, c)
		oh = end
	}
}

// list lists the steps of a class, block of depths by block of depths.
func (b *Blocks) list(c *blockClass, bottom int) {
	taps, width := b.Kernel[0]*b.Kernel[1], levels[chosen].columns
	volume, depth := b.volume(), depthOf(b.Channels*taps)
	for block := range b.Channels / BlockLen {
		for kh := range b.Kernel[0] {
			for kw := range b.Kernel[1] {
				tap := kh*b.Kernel[1] + kw
				at := block*taps + tap
				if at*BlockLen%depth == 0 {
					c.blocks = append(c.blocks, len(c.steps))
				}
				if kh >= c.top && kh < bottom && kw >= b.left && kw < b.right {
					c.steps = append(c.steps, blockStep{
						block*volume + (kh-c.top)*b.Dilation[0]*b.lineBytes() + kw*b.Dilation[1]*pixelBytes, 4 * width * BlockLen * at,
					})
				}
			}
		}
	}
	c.blocks = append(c.blocks, len(c.steps))
}

// volume is the distance of the blocks of what is read, in bytes.
func (b *Blocks) volume() int {
	if !b.apart {
		return pixelBytes * b.In[0] * b.In[1]
	}
	return b.rowsBytes(b.tall) / (b.Channels / BlockLen)
}

// down is the number of parts into which an image is cut.
func (b *Blocks) down() int {
	if b.flat {
		return cuts(b.Out[1], b.tall)
	}
	return cuts(b.Out[0], b.tall)
}

// Parts is the number of parts for a number of workers. The results do not depend on it.
func (b *Blocks) Parts(workers int) int { return b.Images * b.Groups * b.down() * b.across(workers) }

// across is the number of parts into which the channels of the result are cut.
func (b *Blocks) across(workers int) int {
	const each = 4 // parts for a worker, which balance the work
	parts := b.Images * b.Groups * b.down()
	if workers == 1 || parts >= each*workers {
		return 1
	}
	return min(cuts(each*workers, parts), cuts(b.Columns, levels[chosen].columns))
}

// Part computes one of Parts(workers) parts. The images begin at x, the result at out, and
// so does what is added to it, unless it is nil; the weights of each group are packed as the
// right side of a product, weights bytes one after the other.
func (b *Blocks) Part(part, workers int, out, x, added, bias unsafe.Pointer, weights func(group int) unsafe.Pointer, scratch unsafe.Pointer) {
	across, down := b.across(workers), b.down()
	strips := cuts(b.Columns, levels[chosen].columns)
	piece := part % across
	from, to := piece*strips/across, (piece+1)*strips/across
	part /= across
	place, group, image := part%down*b.tall, part/down%b.Groups, part/down/b.Groups
	in, outs := 4*b.Channels*b.In[0]*b.In[1], 4*b.Columns*b.Out[0]*b.Out[1]
	x = unsafe.Add(x, (image*b.Groups+group)*in)
	off := (image*b.Groups + group) * outs
	out = unsafe.Add(out, off)
	p := blockPanel{low: b.Low, high: b.High}
	if added != nil {
		p.added = int(uintptr(added)) + off - int(uintptr(out))
	}
	if b.Bias {
		bias = unsafe.Add(bias, 4*group*b.Columns)
	}
	if b.flat {
		n := min(b.tall, b.Out[1]-place)
		b.strips(&p, &b.classes[0], unsafe.Add(x, place*pixelBytes), unsafe.Add(out, place*pixelBytes), bias, weights(group), 1, n, from, to, added != nil)
		return
	}
	end, top := min(place+b.tall, b.Out[0]), 0
	if b.apart {
		top = max(0, place*b.Stride[0]-b.Pad[0])
		b.copyRows(scratch, x, top, min(b.In[0], (end-1)*b.Stride[0]-b.Pad[0]+(b.Kernel[0]-1)*b.Dilation[0]+1))
		x = scratch
	}
	for i := range b.classes {
		c := &b.classes[i]
		first, last := max(c.first, place), min(c.end, end)
		if first >= last {
			continue
		}
		at := x
		if len(c.steps) > 0 {
			at = unsafe.Add(x, (first*b.Stride[0]-b.Pad[0]+c.top*b.Dilation[0]-top)*b.lineBytes())
		}
		b.strips(&p, c, at, unsafe.Add(out, first*b.Out[1]*pixelBytes), bias, weights(group), last-first, b.Out[1], from, to, added != nil)
	}
}

// strips computes lines of the result for the strips [from, to) of the weights.
func (b *Blocks) strips(p *blockPanel, c *blockClass, x, out, bias, weights unsafe.Pointer, lines, pixels, from, to int, added bool) {
	width, k := levels[chosen].columns, b.Channels*b.Kernel[0]*b.Kernel[1]
	p.aRow, p.aLine, p.cLine = pixelBytes*b.Stride[1], b.Stride[0]*b.lineBytes(), pixelBytes*b.Out[1]
	p.block = pixelBytes * b.Out[0] * b.Out[1]
	strip := blockStripPixels
	if chosen == avx2 {
		strip = blockStripAVX2
	}
	p.rows, p.strip = pixels, evenly(pixels, strip, 1)
	for s := from; s < to; s++ {
		if b.Stop != nil && b.Stop.Stopping() {
			return
		}
		p.b = unsafe.Add(weights, 4*width*k*s)
		p.vectors = min(2, (b.Columns-s*width)/BlockLen)
		for d := range len(c.blocks) - 1 {
			first, end := c.blocks[d], c.blocks[d+1]
			p.a, p.c, p.lines, p.flags = uintptr(x), uintptr(out)+uintptr(s*(width/BlockLen)*p.block), lines, 0
			if d == 0 {
				p.flags = blockFirst
				if b.Bias {
					p.flags |= blockBias
					p.bias = unsafe.Add(bias, 4*width*s)
				}
			}
			if d == len(c.blocks)-2 {
				if added {
					p.flags |= blockAdded
				}
				switch b.Act {
				case Relu:
					p.flags |= blockLow
					p.low = 0
				case Clip:
					p.flags |= blockLow | blockHigh
				}
			}
			if p.count = end - first; p.count > 0 {
				p.steps = &c.steps[first]
			} else if p.flags == 0 {
				continue
			}
			p.run()
		}
	}
}

// copyRows copies rows [top, bottom) of all channels, with zeros beside them.
func (b *Blocks) copyRows(dst, x unsafe.Pointer, top, bottom int) {
	reach, line, volume := b.reach(), pixelBytes*b.In[1], b.volume()
	n := min(b.In[1], reach-b.Pad[1])
	for block := range b.Channels / BlockLen {
		for row := top; row < bottom; row++ {
			to := unsafe.Slice((*float32)(unsafe.Add(dst, block*volume+(row-top)*pixelBytes*reach)), reach*BlockLen)
			from := unsafe.Slice((*float32)(unsafe.Add(x, (block*b.In[0]+row)*line)), n*BlockLen)
			left := b.Pad[1] * BlockLen
			clear(to[:left])
			copy(to[left:], from)
			clear(to[left+len(from):])
		}
	}
}
