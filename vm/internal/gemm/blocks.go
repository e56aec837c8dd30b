package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// BlockLen is the number of channels in a block of an image that is held in blocks: the
// numbers of a pixel that lie side by side, one vector of AVX-512 or two of AVX2.
const BlockLen = 16

// HalfLen is the number of channels of a last half of a block.
const HalfLen = BlockLen / 2

// Blocks is the convolution of images in NCHW16c: the image [C, H, W] lies as [C/BlockLen, H,
// W, BlockLen], and so does the result. If half a block of channels is left, [H, W, HalfLen]
// follows, so that no image is larger than in NCHW. Strips of pixels are the rows of a product whose sums
// stay in registers, and channels of the result its columns. Pixels are read where they lie
// or, if taps reach beyond the left or right edge, in a copy of some rows with zeros beside
// them. Taps above or below the image are left out.
//
// The terms of a sum are added in the order of an Image with Together = BlockLen, of one with
// Spread or, if Thin, of one with neither, and in the same blocks of depths, so the bits are the
// same.
type Blocks struct {
	Images, Groups    int
	Channels, Columns int  // of a group of the image, and of the result: see CanBlock
	Spread            bool // the order of terms is that of Image.Spread
	Thin              bool // the image lies in NCHW and has any number of channels
	In, Out           [2]int
	Kernel            [2]int
	Stride            [2]int
	Dilation          [2]int
	Pad               [2]int // before the image
	First             Axis   // of volumes: see there
	Bias              bool
	Act               Activation
	Low, High         float32
	Finish            func(d []float32) // applied to complete elements, in place; may be nil
	Planes            bool              // the result lies in NCHW
	Added             bool              // something is added to the sums; not to 16-bit results in NCHW
	Whole             bool              // a sum is written once, complete, so that it may overwrite what is added
	// Format is that of the image and the result. 16-bit pixels are widened in a copy, and
	// complete sums are rounded; what is added to them, and Finish, follow then, and the sums
	// are rounded again.
	Format Format
	// Tiles is not 0 for a transposed convolution whose kernel, of this size, covers the
	// result without gaps and overlaps: the products of each tap, a flat convolution with
	// weights of its own, lie so many pixels apart. The bias is added last.
	Tiles [2]int
	Alike bool // the weights are packed Alike
	Stop  Stopper

	flat    bool   // each output reads the pixel at its place: all rows are one
	apart   bool   // pixels are read in a copy; of a flat image, only those that are read
	inPlace bool   // not to be, though taps are left out pixel by pixel
	image   [2]int // of a flat image: In
	wide    int    // of a flat image: the width of the result
	tall    int    // the most rows of the result in a part; in a flat image, pixels
	share   blockShare
	classes []blockClass
}

// Axis is the axis before the rows of a volume [C, D, H, W], which lies as [C/BlockLen, D, H, W,
// BlockLen]; the zero value is that of an image. A volume is in float32, and so is its result, of
// whole blocks of channels.
type Axis struct{ In, Out, Kernel, Stride, Dilation, Pad int }

// front is First, or what the zero value stands for.
func (b *Blocks) front() Axis {
	if b.First == (Axis{}) {
		return Axis{In: 1, Out: 1, Kernel: 1, Stride: 1, Dilation: 1}
	}
	return b.First
}

// outputs is the number of pixels of the result.
func (b *Blocks) outputs() int { return b.front().Out * b.Out[0] * b.Out[1] }

// blockPanel holds the arguments of a micro-kernel. Package asm addresses the fields by
// their offsets. a, b and c are no pointers: the micro-kernel moves a and c from line to
// line, and in the end beyond the last one, and b may stand for weights before those in memory.
type blockPanel struct {
	a      uintptr // the pixels of the first strip
	b      uintptr // weights
	c      uintptr // the result's pixels
	steps  *blockStep
	count  int // steps
	rows   int // pixels of a line
	strip  int // the most pixels of a strip
	aRow   int // bytes from one pixel to the next
	lines  int
	aLine  int
	cLine  int
	block  int            // bytes from one block of the result to the next
	added  int            // bytes from the result to what is added to it
	bias   unsafe.Pointer // of the channels
	flags  int
	halves int // of blocks of the result's channels
	low    float32
	high   float32
	second uintptr // the result's pixels of a half beside a block
	tail   uintptr // the pixels of a last half of a block; 0: none
	tailB  uintptr // its weights
	thin   bool    // a step is one channel
	ahead  bool    // the next weights are prefetched; if thin, the pixels of later steps
	next   uintptr // where they lie
	passes int     // how many strips of pixels prefetch a part of them, nextPasses in all
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
	manyWeights      = 1 << 20 // bytes: each part reads them again from a slower cache, so parts are larger
	mostDenseSide    = 16      // taps along an axis
	mostBlockRoom    = 1 << 21 // if a single row needs more
	mostBlockReach   = 1 << 20 // pixels
	leastInPlace     = 512     // pixels of a part that is not copied: for them the weights are read again
	leastCopied      = 42      // pixels of a part of a volume that is copied
	thinAhead        = 6       // steps of a thin image ahead their pixels are prefetched
)

// CanBlock reports whether this machine convolves such images in blocks. The channels of a group
// are whole blocks or, if there is only one group, of float32, halves: those of the image under a
// kernel of a single element that reads each pixel. There may be any number of them in NCHW.
func (b *Blocks) CanBlock() bool {
	left, right := b.Channels%BlockLen != 0 && !b.Thin, b.Columns%BlockLen != 0 && !b.Planes
	if left || right {
		one := [2]int{1, 1}
		alone := b.Groups == 1 && b.Format == Float32 && b.Tiles == [2]int{} && (!left || b.Channels%HalfLen == 0) && (!right || b.Columns%HalfLen == 0)
		if !alone || left && (b.Kernel != one || b.Stride != one || b.Pad != [2]int{} || b.In != b.Out) {
			return false
		}
	}
	if b.First != (Axis{}) && !b.canBlockVolumes() {
		return false
	}
	if chosen == plain || b.Channels == 0 || b.Columns == 0 ||
		b.Kernel[0] < 1 || b.Kernel[1] < 1 || b.Kernel[0] > mostDenseSide || b.Kernel[1] > mostDenseSide {
		return false
	}
	for a := range 2 {
		if b.Pad[a] < 0 || b.Pad[a] > (b.Kernel[a]-1)*b.Dilation[a] || b.Out[a] < 1 || b.In[a] < 1 || b.Stride[a] > mostBlockReach || b.Dilation[a] > mostBlockReach || b.Out[a] > mostBlockReach {
			return false
		}
	}
	_, inside := b.segments()
	return inside && b.Format == Float32 || b.reach() <= mostBlockReach && b.rowsBytes(1) <= mostBlockRoom
}

// canBlockVolumes is CanBlock for what volumes need beside.
func (b *Blocks) canBlockVolumes() bool {
	a := b.First
	return b.Format == Float32 && b.Tiles == [2]int{} && (b.Thin || b.Channels%BlockLen == 0) && b.Columns%BlockLen == 0 &&
		a.In >= 1 && a.Out >= 1 && a.Kernel >= 1 && a.Kernel <= mostDenseSide && a.Pad >= 0 && a.Pad <= (a.Kernel-1)*a.Dilation &&
		max(a.Out, a.Stride, a.Dilation) <= mostBlockReach
}

// width is the size of a number of the image and of the result.
func (b *Blocks) width() int {
	if b.Format == Float32 {
		return 4
	}
	return 2
}

// unit is the number of channels of the image that lie together: a step of the micro-kernel.
func (b *Blocks) unit() int {
	if b.Thin {
		return 1
	}
	return BlockLen
}

// pixel is the size of a pixel of what is read.
func (b *Blocks) pixel() int { return 4 * b.unit() }

// room is the most that the pixels of a part may take, if they are more than a row.
func (b *Blocks) room() int {
	if 4*b.Depth()*b.Columns > manyWeights {
		return 2 * blockRoom
	}
	return blockRoom
}

// reach is the number of pixels from the first to the last that a row of the result reads.
func (b *Blocks) reach() int {
	return (b.Out[1]-1)*b.Stride[1] + (b.Kernel[1]-1)*b.Dilation[1] + 1
}

// rowsBytes is the size of what rows of the result read: some of a plane, or whole planes.
func (b *Blocks) rowsBytes(rows int) int {
	return b.pixel() * (b.Channels / b.unit()) * b.planesOf(rows) * b.highOf(rows) * b.reach()
}

// highOf is how many rows of a plane they read, and planesOf of how many planes.
func (b *Blocks) highOf(rows int) int {
	return min((min(rows, b.Out[0])-1)*b.Stride[0]+(b.Kernel[0]-1)*b.Dilation[0]+1, b.In[0])
}

func (b *Blocks) planesOf(rows int) int {
	a := b.front()
	return min((max(rows/b.Out[0], 1)-1)*a.Stride+(a.Kernel-1)*a.Dilation+1, a.In)
}

// PlanBytes is the most memory that Plan allocates.
func (b *Blocks) PlanBytes() int {
	segments, _ := b.segments()
	planes, rows := b.runs()
	listed, classes := planes*rows*len(segments), b.front().Out*rows*len(segments)
	return listed*((b.Depth()/b.unit()+b.behind())*int(unsafe.Sizeof(blockStep{}))+cuts(b.Depth(), b.deep())*8) + classes*int(unsafe.Sizeof(blockClass{}))
}

// behind is the number of steps behind those of a class that lead nowhere.
func (b *Blocks) behind() int {
	if b.Thin {
		return thinAhead
	}
	return 0
}

// Plan decides how to convolve, before anything else is called.
func (b *Blocks) Plan() {
	one := [2]int{1, 1}
	within := (b.Out[0]-1)*b.Stride[0] < b.In[0] && b.reach() <= b.In[1]
	b.flat = b.First == Axis{} && b.Kernel == one && b.Pad == [2]int{} && within && (b.Stride != one || b.In == b.Out)
	_, inside := b.segments()
	b.apart = b.Format != Float32 || !inside
	if b.flat {
		b.apart = b.Format != Float32 || b.Stride != one
		b.image, b.wide = b.In, b.Out[1]
		b.In = [2]int{1, b.Out[0] * b.Out[1]}
		b.Out = b.In
		b.tall = evenly(b.Out[1], max(b.room()/(4*b.Channels), 4*blockStripPixels), 2*blockStripPixels)
	} else {
		if b.tall = b.fitting(); b.apart && b.First != (Axis{}) && b.tall*b.Out[1] < leastCopied {
			b.inPlace = true
			if _, inside = b.segments(); inside {
				b.apart = false
				b.tall = b.fitting()
			}
		}
	}
	for b.Thin && b.tall > 1 && b.copyBytes()+b.sumsBytes() > ScratchBytes { // no more than a product needs
		b.tall = b.even(cuts(b.tall, 2))
	}
	b.classify()
}

// fitting returns how many rows of the result make a part, as even as can be.
func (b *Blocks) fitting() int {
	tall := b.long()
	for tall > 1 && b.rowsBytes(tall) > b.room() && (b.apart || tall*b.Out[1] > leastInPlace) {
		tall--
	}
	return b.even(cuts(b.long(), cuts(b.long(), tall)))
}

// even returns the most rows, up to a number, that a part can have: of volumes that are copied, parts
// are whole planes or lie in one.
func (b *Blocks) even(rows int) int {
	for b.apart && !b.flat && b.Out[0]%rows != 0 && rows%b.Out[0] != 0 && b.First != (Axis{}) {
		rows--
	}
	return rows
}

// BlockPlaces says where the operands of Blocks lie: the images, the result, what is added to
// it before the activation, unless it is nil, and the bias.
type BlockPlaces struct{ X, Out, Added, Bias unsafe.Pointer }

// ScratchBytes is the scratch of each worker: for a copy of the pixels, for sums, and for a
// strip of weights that are not packed.
func (b *Blocks) ScratchBytes(packed bool) int {
	n := b.copyBytes() + b.sumsBytes()
	if !packed || b.Format != Float32 {
		n += 4 * levels[chosen].columns * b.deep()
	}
	if b.partial() {
		n += biasBytes
	}
	return n
}

// partial reports whether the last block of the result is neither whole nor half.
func (b *Blocks) partial() bool { return b.Columns%HalfLen != 0 }

// biasBytes is room for the bias of a partial block and of the block before it.
const biasBytes = 2 * pixelBytes

// aside reports whether sums are complete before they are moved to the result.
func (b *Blocks) aside() bool {
	return b.Planes || b.taps() > 0 || b.Format != Float32 || b.Whole && b.deep() < b.Depth()
}

// Later reports whether what is added, and Finish behind it, follow the micro-kernel.
func (b *Blocks) Later() bool { return b.Added && b.aside() }

// tailed reports whether half a block of channels of the image is left.
func (b *Blocks) tailed() bool { return b.Channels%b.unit() != 0 }

// taps is the number of taps of Tiles.
func (b *Blocks) taps() int { return b.Tiles[0] * b.Tiles[1] }

// Depth is the number of terms of a sum.
func (b *Blocks) Depth() int { return b.Channels * b.front().Kernel * b.Kernel[0] * b.Kernel[1] }

// deep is the depth of a block of depths.
func (b *Blocks) deep() int {
	if b.Spread {
		return depthOf(b.Channels)
	}
	return depthOf(b.Depth())
}

func (b *Blocks) copyBytes() int {
	switch {
	case !b.apart:
		return 0
	case b.flat:
		return 4 * b.Channels * b.tall
	}
	return b.rowsBytes(b.tall)
}

func (b *Blocks) sumsBytes() int {
	columns := levels[chosen].columns
	switch {
	case !b.aside():
		return 0
	case b.Format != Float32 || b.Added:
		columns += BlockLen // a block in planes, or what is added
	}
	return 4 * columns * b.most()
}

// most is the most pixels of the result in a part.
func (b *Blocks) most() int {
	if b.flat {
		return b.tall
	}
	return b.tall * b.Out[1]
}

// lineBytes is the distance of the rows of what is read.
func (b *Blocks) lineBytes() int {
	if b.apart {
		return b.pixel() * b.reach()
	}
	return b.pixel() * b.In[1]
}

// volume is the distance of the blocks of what is read, in bytes.
func (b *Blocks) volume() int {
	if !b.apart {
		return b.front().In * b.planeBytes()
	}
	return b.copyBytes() / (b.Channels / b.unit())
}

// planeBytes is the distance of the planes of what is read.
func (b *Blocks) planeBytes() int {
	if b.apart {
		return b.lineBytes() * b.highOf(b.tall)
	}
	return b.lineBytes() * b.In[0]
}

// Part computes one of Parts(workers) parts. weights returns the right side of the product of
// a group, or of a tap of Tiles. scratch has ScratchBytes bytes.
func (b *Blocks) Part(part, workers int, at *BlockPlaces, weights func(group int) Operand, scratch unsafe.Pointer) {
	tall, across := b.shared(workers)
	down := cuts(b.long(), tall)
	strips := cuts(b.Columns, levels[chosen].columns)
	taps := max(b.taps(), 1)
	tap, part := part%taps, part/taps
	piece := part % across
	part /= across
	place, group, image := part%down*tall, part/down%b.Groups, part/down/b.Groups
	in, out := b.width()*b.Channels*b.front().In*b.In[0]*b.In[1], b.width()*b.Columns*b.outputs()*taps
	if b.flat {
		in = b.width() * b.Channels * b.image[0] * b.image[1]
	}
	x := unsafe.Add(at.X, (image*b.Groups+group)*in)
	r := blockRun{
		Blocks: b, out: unsafe.Add(at.Out, (image*b.Groups+group)*out), weights: weights(group + tap), tap: tap, from: piece * strips / across, to: (piece + 1) * strips / across,
		sums: unsafe.Add(scratch, b.copyBytes()), strip: unsafe.Add(scratch, b.copyBytes()+b.sumsBytes()),
	}
	if b.partial() {
		r.lastBias, r.strip = r.strip, unsafe.Add(r.strip, biasBytes)
	}
	r.p = blockPanel{low: b.Low, high: b.High, aRow: b.pixel() * b.Stride[1], aLine: b.Stride[0] * b.lineBytes(), thin: b.Thin}
	if b.Added {
		r.p.added = int(uintptr(at.Added)) - int(uintptr(at.Out))
		r.terms = unsafe.Add(at.Added, (image*b.Groups+group)*out)
	}
	if b.Bias {
		r.bias = unsafe.Add(at.Bias, 4*group*b.Columns)
	}
	if b.flat {
		r.first, r.pixels, r.end = place, min(tall, b.Out[1]-place), place+1
	} else {
		r.first, r.pixels, r.end = place, b.Out[1], min(place+tall, b.long())
	}
	switch {
	case !b.apart && b.flat:
		r.x = unsafe.Add(x, place*b.pixel())
		if b.tailed() {
			r.half = unsafe.Add(x, b.Channels/BlockLen*b.volume()+place*4*HalfLen)
		}
	case !b.apart:
		r.x = x
	case b.flat:
		r.x, r.p.aRow = scratch, b.pixel()
		b.pick(scratch, x, place, r.pixels)
	default:
		r.x = scratch
		r.copyRows(x)
	}
	r.run()
}

// blockRun is a part of Blocks: some strips of the weights with rows [first, end) of the
// result or, in a flat image, with pixels from the first one on.
type blockRun struct {
	*Blocks
	p           blockPanel
	x           unsafe.Pointer // what is read
	half        unsafe.Pointer // a last half of a block
	front, top  int            // the plane and the row of the image at x
	out, bias   unsafe.Pointer
	weights     Operand
	tap         int // of Tiles
	from, to    int // strips of the weights
	first, end  int
	pixels      int            // of a row
	terms       unsafe.Pointer // what is added
	sums, strip unsafe.Pointer // in scratch
	lastBias    unsafe.Pointer // in scratch, if partial
}

// run computes the part strip by strip. Each block of weights meets all rows before the next.
func (r *blockRun) run() {
	p, width := &r.p, levels[chosen].columns
	outputs, begin, count := r.outputs(), r.first*r.Out[1], (r.end-r.first)*r.pixels
	if r.flat {
		begin = r.first
	}
	last := len(r.classes[0].blocks) - 2
	w, is := r.weights.(*Packed)
	wide := is && w.Format == Float32
	p.ahead = intel && chosen == avx512 && (r.Thin || is && r.strips() >= leastAhead/12)
	for s := r.from; s < r.to; s++ {
		if r.Stop != nil && r.Stop.Stopping() {
			return
		}
		p.halves = cuts(min(width, r.Columns-s*width), HalfLen)
		if wide {
			p.b = uintptr(w.strip(width*s, 0, width))
		}
		pixel := 4 * HalfLen * min(2, p.halves)
		p.cLine = pixel * r.pixels
		// No address beyond the result may be computed: the garbage collector would find it.
		to := r.sums
		if p.block = pixelBytes * count; !r.aside() {
			to, p.block = unsafe.Add(r.out, s*width*outputs*4+begin*pixel), pixelBytes*outputs
			if p.halves == 3 {
				p.block -= begin * (pixelBytes - 4*HalfLen)
			}
		}
		if r.Bias {
			p.bias = r.biasOf(s, width)
		}
		for d := range last + 1 {
			if !wide {
				p.b = r.packWeights(s, d)
			}
			flags := r.flags(d == 0, d == last)
			if p.ahead && !r.Thin {
				p.next, p.passes = r.following(s, d)
			}
			for i := range r.classes {
				r.lines(&r.classes[i], d, flags, to)
			}
		}
		r.finish(to, s, begin, count)
	}
}

// strips is the number of strips of pixels of the part.
func (r *blockRun) strips() int { return (r.end - r.first) * cuts(r.pixels, blockStrip()) }

// following returns where the weights lie that follow a block of depths of a strip, and how many
// strips of pixels it takes to prefetch them.
func (r *blockRun) following(s, d int) (next uintptr, passes int) {
	c, w, width := &r.classes[0], r.weights.(*Packed), levels[chosen].columns
	passes = nextPasses * w.Format.size() / 4
	if d++; d < len(c.blocks)-1 && c.blocks[d] < c.blocks[len(c.blocks)-1] {
		if w.Format != Float32 {
			k, _ := r.depths(d)
			return uintptr(w.strip(width*s, k, width)), passes
		}
		return r.p.b + uintptr(c.steps[c.blocks[d]].weights), passes
	}
	if s+1 < r.to {
		return uintptr(w.strip(width*(s+1), 0, width)), passes
	}
	return 0, 0
}

// biasOf returns the bias of a strip, of whole halves of blocks.
func (r *blockRun) biasOf(s, width int) unsafe.Pointer {
	at, n := unsafe.Add(r.bias, 4*width*s), r.Columns-s*width
	if n >= width || n%HalfLen == 0 {
		return at
	}
	whole := unsafe.Slice((*float32)(r.lastBias), biasBytes/4)
	clear(whole)
	copy(whole, unsafe.Slice((*float32)(at), n))
	return r.lastBias
}

// flags says what the micro-kernel does with the sums of a block of depths, which begins
// or completes them or neither.
func (r *blockRun) flags(first, last bool) int {
	flags := 0
	if first {
		flags |= blockFirst
	}
	if r.Bias && (first && r.taps() == 0 || last && r.taps() > 0) {
		flags |= blockBias
	}
	if !last {
		return flags
	}
	if r.Added && !r.Later() {
		flags |= blockAdded
	}
	switch r.Act {
	case Relu:
		flags |= blockLow
		r.p.low = 0
	case Clip:
		flags |= blockLow | blockHigh
	}
	return flags
}

// lines computes the pixels of a class for one block of depths.
func (r *blockRun) lines(c *blockClass, d, flags int, to unsafe.Pointer) {
	p, from, end := &r.p, max(c.first, r.first), min(c.end, r.end)
	if r.flat {
		from, end = r.first, r.end
	}
	if from >= end {
		return
	}
	steps := c.steps[c.blocks[d]:c.blocks[d+1]]
	tail := r.tailed() && d == len(c.blocks)-2
	if len(steps) == 0 && flags == 0 && !tail {
		return
	}
	p.tail = 0
	if tail {
		p.tail = uintptr(r.half)
		p.tailB = p.b + uintptr(r.weightsAt(r.Channels/BlockLen*BlockLen))
	}
	p.flags, p.count, p.steps = flags, len(steps), unsafe.SliceData(steps)
	if p.rows = c.row.to - c.row.from; r.flat {
		p.rows = r.pixels
	}
	p.strip = evenly(p.rows, blockStrip(), 1)
	each := end - from
	if p.rows < r.pixels && p.halves == 3 {
		each = 1 // the micro-kernel takes it that the lines of the second half follow each other
	}
	for ; from < end; from += each {
		r.line(c, from, to)
		p.lines = each
		p.run()
	}
}

// line says where a line of a class begins.
func (r *blockRun) line(c *blockClass, row int, to unsafe.Pointer) {
	p := &r.p
	place := (row-r.first)*p.cLine + c.row.from*(p.cLine/r.pixels)
	p.a, p.c, p.second = uintptr(r.x), uintptr(to)+uintptr(place), uintptr(to)+uintptr(p.block+place*HalfLen/BlockLen)
	if p.count == 0 || r.flat {
		return
	}
	column := c.row.from * r.Stride[1]
	if !r.apart {
		column -= r.Pad[1]
	}
	front, plane, row := r.Blocks.front(), row/r.Out[0], row%r.Out[0]
	p.a += uintptr((plane*front.Stride-front.Pad+c.front*front.Dilation-r.front)*r.planeBytes() +
		(row*r.Stride[0]-r.Pad[0]+c.top*r.Dilation[0]-r.top)*r.lineBytes() + column*r.pixel())
}

// finish applies Finish to the sums of a strip, which lie at sums, and moves them to planes.
func (r *blockRun) finish(sums unsafe.Pointer, s, first, pixels int) {
	if r.Finish == nil && !r.aside() {
		return
	}
	width, outputs := levels[chosen].columns, r.outputs()
	for block := range cuts(min(width, r.Columns-s*width), BlockLen) {
		at := (*float32)(unsafe.Add(sums, block*r.p.block))
		channel := s*width + block*BlockLen
		channels := min(BlockLen, r.Columns-channel)
		lanes := cuts(channels, HalfLen) * HalfLen
		if r.Finish != nil && !r.Later() {
			r.Finish(unsafe.Slice(at, pixels*lanes))
		}
		switch {
		case r.taps() > 0:
			r.tile(unsafe.Pointer(at), channel/BlockLen, first, pixels)
		case r.Planes && r.Format == Float32 && !r.Added:
			simd.Transpose(float(r.out, 4*(channel*outputs+first)), at, outputs, lanes, pixels, channels)
		case r.aside():
			r.store(channel, channels, lanes, first, at, unsafe.Add(r.sums, 4*width*r.most()), pixels)
		}
	}
}

// store adds what is added to the sums of a block of lanes, and writes those of its channels. aside has room for as
// many numbers, which it takes if the result is in planes.
func (r *blockRun) store(channel, channels, lanes, first int, sums *float32, aside unsafe.Pointer, pixels int) {
	outputs := r.outputs()
	if !r.Planes {
		r.write(channel*outputs+first*lanes, unsafe.Slice(sums, pixels*lanes))
		return
	}
	simd.Transpose((*float32)(aside), sums, pixels, lanes, pixels, channels)
	for c := range channels {
		r.write((channel+c)*outputs+first, unsafe.Slice(float(aside, 4*c*pixels), pixels))
	}
}

// write writes complete sums at an element of the result, with what is added to them. It
// overwrites the sums of 16-bit results.
func (r *blockRun) write(at int, sums []float32) {
	if r.Format != Float32 {
		r.round(at, sums)
		return
	}
	d := unsafe.Slice((*float32)(unsafe.Add(r.out, 4*at)), len(sums))
	simd.Add(d, sums, unsafe.Slice((*float32)(unsafe.Add(r.terms, 4*at)), len(sums)))
	if r.Finish != nil {
		r.Finish(d)
	}
}

// roundedLen is how many sums are rounded at a time: they stay in the first-level cache.
const roundedLen = 1 << 11

// round is write for 16 bits.
func (r *blockRun) round(at int, sums []float32) {
	to := r.Format.narrow()
	for len(sums) > 0 {
		some := sums[:min(roundedLen, len(sums))]
		if r.Added { // the convolution has a rounded result of its own
			simd.RoundAndAdd(some, unsafe.Slice((*uint16)(unsafe.Add(r.terms, 2*at)), len(some)), to)
			if r.Finish != nil {
				r.Finish(some)
			}
		}
		simd.Round(unsafe.Slice((*uint16)(unsafe.Add(r.out, 2*at)), len(some)), some, to)
		at, sums = at+len(some), sums[len(some):]
	}
}

// tile moves the pixels of a block that one tap of Tiles makes to their places.
func (r *blockRun) tile(from unsafe.Pointer, block, first, pixels int) {
	width, high, wide := r.wide, r.Tiles[0], r.Tiles[1]
	line := pixelBytes * width * wide
	to := unsafe.Add(r.out, block*r.image[0]*high*line+r.tap/wide*line+r.tap%wide*pixelBytes)
	for i := range pixels {
		row, column := (first+i)/width, (first+i)%width
		at := unsafe.Add(to, row*high*line+column*wide*pixelBytes)
		*(*[BlockLen]float32)(at) = *(*[BlockLen]float32)(unsafe.Add(from, i*pixelBytes))
	}
}

// packWeights packs the weights of a block of depths of a strip, and returns where the strip would
// begin.
func (r *blockRun) packWeights(s, d int) uintptr {
	width := levels[chosen].columns
	k, end := r.depths(d)
	r.weights.Pack(unsafe.Slice((*float32)(r.strip), width*(end-k)), width, s*width, k, end-k)
	return uintptr(r.strip) - uintptr(4*width*k)
}

// depths returns the depths of a block of them.
func (r *blockRun) depths(d int) (k, end int) {
	deep := r.deep()
	if r.Spread {
		each := cuts(r.Channels, deep)
		k = d/each*r.Channels + d%each*deep
		return k, min(k+deep, (d/each+1)*r.Channels)
	}
	return d * deep, min((d+1)*deep, r.Depth())
}

// copyRows copies the rows of all channels that the part reads to r.x, with zeros beside them.
func (r *blockRun) copyRows(x unsafe.Pointer) {
	front, first, end := r.Blocks.front(), r.first%r.Out[0], (r.end-1)%r.Out[0]
	if r.end-r.first > r.Out[0] {
		first, end = 0, r.Out[0]-1
	}
	r.top, r.front = max(0, first*r.Stride[0]-r.Pad[0]), max(0, r.first/r.Out[0]*front.Stride-front.Pad)
	bottom := min(r.In[0], end*r.Stride[0]-r.Pad[0]+(r.Kernel[0]-1)*r.Dilation[0]+1)
	back := min(front.In, (r.end-1)/r.Out[0]*front.Stride-front.Pad+(front.Kernel-1)*front.Dilation+1)
	reach, line, volume, plane, unit := r.reach(), r.width()*r.unit()*r.In[1], r.volume(), r.planeBytes(), r.unit()
	n := min(r.In[1], reach-r.Pad[1])
	for block := range r.Channels / unit {
		for d := r.front; d < back; d++ {
			for row := r.top; row < bottom; row++ {
				to := unsafe.Slice((*float32)(unsafe.Add(r.x, block*volume+(d-r.front)*plane+(row-r.top)*4*unit*reach)), reach*unit)
				left, right := r.Pad[1]*unit, (r.Pad[1]+n)*unit
				clear(to[:left])
				r.read(to[left:right], unsafe.Add(x, ((block*front.In+d)*r.In[0]+row)*line))
				clear(to[right:])
			}
		}
	}
}

// pick copies n pixels that a 1 x 1 kernel reads, from the given one of the result on.
func (b *Blocks) pick(dst, x unsafe.Pointer, first, n int) {
	unit := b.unit()
	pixel := b.width() * unit
	volume, line := b.volume(), pixel*b.image[1]
	for block := range b.Channels / unit {
		to, from := unsafe.Slice((*float32)(unsafe.Add(dst, block*volume)), n*unit), unsafe.Add(x, block*b.image[0]*line)
		if b.Stride == [2]int{1, 1} {
			b.read(to, unsafe.Add(from, first*pixel))
			continue
		}
		for i := range n {
			row, column := (first+i)/b.wide, (first+i)%b.wide
			b.read(to[i*unit:][:unit], unsafe.Add(from, row*b.Stride[0]*line+column*b.Stride[1]*pixel))
		}
	}
}

// read copies or widens numbers of the image.
func (b *Blocks) read(dst []float32, from unsafe.Pointer) {
	if b.Format == Float32 {
		copy(dst, unsafe.Slice((*float32)(from), len(dst)))
		return
	}
	simd.Widen(dst, unsafe.Slice((*uint16)(from), len(dst)), b.Format.narrow())
}
