package gemm

import (
	"math"
	"unsafe"
)

// BlockSlide slides a kernel over one block of an image in NCHW16c (BlockLen channels), and
// joins the pixels under it: each lane is a channel of its own. The output is divided into
// boxes, rectangles whose taps lie at the same places, in the image or outside of it, so that
// no pixel asks. (To copy small images into their padding takes longer.) Bands of output rows
// can be computed in any order.
//
// The results have the bits of Depthwise and Pool in NCHW. Taps outside of the image are
// products with 0 in a weighted sum, as they are there: such a product turns -0 into 0.
type BlockSlide struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // as in Image, of one layer
	Join                                   Join
	Act                                    Activation                // of Weigh
	Low, High                              float32                   // of Clip
	Counted                                func(axis, place int) int // of Average: the taps along an axis that count
	Half                                   bool                      // a block of HalfLen channels; only Weigh

	bands []int // the number of boxes up to the end of each band
	boxes []blockBox
	taps  []int
}

// Join is how a BlockSlide joins the pixels under its kernel.
type Join int

// The ways to join pixels. Where 0 and -0 are the largest, the last of them counts.
const (
	Weigh          Join = iota // products with weights, row by row
	Largest                    // row by row; a NaN has all bits set
	LargestColumns             // column by column; a NaN has the bits of the first
	Average                    // the sums of columns are added up and divided by the taps that count
)

// blockBox is a rectangle of the output. Distances are in bytes. A row of the box may be a
// part of a column of the image. Package asm addresses the fields by their offsets.
type blockBox struct {
	dst, src         int // from the block; src may lie before it, in the padding
	taps             int // from the list of taps
	count            int // of taps; in each column for Average
	columns          int // of taps for Average
	rows, pixels     int
	dstNext, srcNext int   // from row to row
	dstStep, srcStep int   // from pixel to pixel
	stride           int32 // srcStep in pixels: 1 or 2; 0: any, and dstStep, too
	divisor          float32
}

// blockSliding holds the arguments that all boxes share.
type blockSliding struct {
	dst, src, weights, taps, bias unsafe.Pointer
	flag                          int // Weigh: keep the sums in [low, high]; Largest: set all bits of NaN
	low, high                     float32
}

const (
	pixelBytes    = 4 * BlockLen
	outsideTap    = 1       // in place of the distance of a tap
	bandBytes     = 1 << 17 // of the output of a band, for the second-level cache
	mostBlockSide = 1 << 20
	mostSegments  = 64 // of an axis
	mostBoxes     = 1 << 14
	narrowBox     = 3 // pixels: rows with fewer are computed as columns
)

// blockSegment is a range [from, to) of places of the output along an axis, under which the
// taps [first, last) lie in the image and counted taps count.
type blockSegment struct{ from, to, first, last, counted int }

// segments appends the segments of the places [from, to) of an axis to list.
func (b *BlockSlide) segments(list []blockSegment, axis, from, to int) []blockSegment {
	for o := from; o < to; o++ {
		s := blockSegment{from: o, to: o + 1}
		s.first, s.last = within(b.Pad[axis]-o*b.Stride[axis], b.Dilation[axis], b.In[axis], b.Kernel[axis])
		if b.Join == Average {
			s.counted = b.Counted(axis, o)
		}
		if n := len(list); n > 0 && list[n-1].first == s.first && list[n-1].last == s.last && list[n-1].counted == s.counted {
			list[n-1].to++
			continue
		}
		list = append(list, s)
	}
	return list
}

// rows is the number of output rows of a band.
func (b *BlockSlide) rows() int {
	return min(b.Out[1], max(1, bandBytes/pixelBytes/b.Out[2]))
}

// lanes is the number of channels.
func (b *BlockSlide) lanes() int {
	if b.Half {
		return HalfLen
	}
	return BlockLen
}

// Bands is the number of bands.
func (b *BlockSlide) Bands() int { return cuts(b.Out[1], b.rows()) }

// ListLen is the length of the list that UseList takes, or 0 if this machine cannot slide
// such a kernel over blocks.
func (b *BlockSlide) ListLen() int {
	taps := b.Kernel[1] * b.Kernel[2]
	if chosen == plain || b.In[0] != 1 || b.Out[0] != 1 || b.Kernel[0] != 1 || b.Pad[0] != 0 {
		return 0
	}
	for a := 1; a < 3; a++ {
		for _, n := range []int{b.In[a], b.Out[a], b.Kernel[a], b.Stride[a], b.Dilation[a], b.Pad[a] + 1} {
			if n < 1 || n > mostBlockSide {
				return 0
			}
		}
	}
	if taps > mostTaps {
		return 0
	}
	across := b.segments(nil, 2, 0, b.Out[2])
	boxes, lists := 0, 0
	for band := range b.Bands() {
		n := len(b.segments(nil, 1, band*b.rows(), min((band+1)*b.rows(), b.Out[1])))
		boxes += n * len(across)
		lists += n * len(across) * taps
	}
	if len(across) > mostSegments || boxes > mostBoxes {
		return 0
	}
	return b.Bands() + boxes*boxNumbers + lists
}

const boxNumbers = int(unsafe.Sizeof(blockBox{})) / 8

// UseList fills room, of ListLen numbers, which Band reads.
func (b *BlockSlide) UseList(room []int) {
	bands, taps := b.Bands(), b.Kernel[1]*b.Kernel[2]
	b.bands, room = room[:bands], room[bands:]
	boxes := len(room) / (boxNumbers + taps)
	b.boxes = unsafe.Slice((*blockBox)(unsafe.Pointer(unsafe.SliceData(room))), boxes)[:0]
	b.taps = room[boxes*boxNumbers:][:0]
	across := b.segments(nil, 2, 0, b.Out[2])
	var down []blockSegment
	for i := range b.bands {
		down = b.segments(down[:0], 1, i*b.rows(), min((i+1)*b.rows(), b.Out[1]))
		for _, v := range down {
			for _, h := range across {
				b.addBox(v, h)
			}
		}
		b.bands[i] = len(b.boxes)
	}
}

// addBox adds the box of two segments.
func (b *BlockSlide) addBox(v, h blockSegment) {
	pixel := 4 * b.lanes()
	box := blockBox{
		dst: pixel * (v.from*b.Out[2] + h.from), src: pixel * ((v.from*b.Stride[1]-b.Pad[1])*b.In[2] + h.from*b.Stride[2] - b.Pad[2]),
		rows: v.to - v.from, dstNext: pixel * b.Out[2], srcNext: pixel * b.Stride[1] * b.In[2],
		pixels: h.to - h.from, dstStep: pixel, srcStep: pixel * b.Stride[2],
		taps: 8 * len(b.taps), divisor: float32(max(v.counted, 1)) * float32(max(h.counted, 1)),
	}
	switch {
	case box.pixels < min(box.rows, narrowBox):
		box.rows, box.pixels = box.pixels, box.rows
		box.dstNext, box.dstStep = box.dstStep, box.dstNext
		box.srcNext, box.srcStep = box.srcStep, box.srcNext
	case b.Stride[2] <= 2:
		box.stride = int32(b.Stride[2])
	}
	b.addTaps(&box, v, h)
	b.boxes = append(b.boxes, box)
}

// addTaps adds the taps of a box in the order in which they are joined.
func (b *BlockSlide) addTaps(box *blockBox, v, h blockSegment) {
	add := func(kh, kw int) {
		b.taps = append(b.taps, 4*b.lanes()*(kh*b.Dilation[1]*b.In[2]+kw*b.Dilation[2]))
	}
	rows, columns := v.last-v.first, h.last-h.first
	box.count, box.columns = rows*columns, columns
	switch b.Join {
	case Weigh:
		box.count = b.Kernel[1] * b.Kernel[2]
		for kh := range b.Kernel[1] {
			for kw := range b.Kernel[2] {
				if kh < v.first || kh >= v.last || kw < h.first || kw >= h.last {
					b.taps = append(b.taps, outsideTap)
				} else {
					add(kh, kw)
				}
			}
		}
	case Largest:
		for kh := v.first; kh < v.last; kh++ {
			for kw := h.first; kw < h.last; kw++ {
				add(kh, kw)
			}
		}
	case Average, LargestColumns:
		for kw := h.first; kw < h.last; kw++ {
			for kh := v.first; kh < v.last; kh++ {
				add(kh, kw)
			}
		}
		if b.Join == Average {
			if box.count = rows; rows == 0 {
				box.columns = 0
			}
		}
	}
}

// Band computes a band of one block. weights has a number of each channel for each tap, and bias
// one; only Weigh reads them.
func (b *BlockSlide) Band(band int, out, in, weights, bias unsafe.Pointer) {
	p := blockSliding{dst: out, src: in, weights: weights, taps: unsafe.Pointer(unsafe.SliceData(b.taps)), bias: bias}
	switch {
	case b.Join == Largest, b.Act != None:
		p.flag = 1
	}
	switch b.Act {
	case Relu:
		p.high = float32(math.Inf(1))
	case Clip:
		p.low, p.high = b.Low, b.High
	}
	first := 0
	if band > 0 {
		first = b.bands[band-1]
	}
	p.run(b.Join, b.Half, b.boxes[first:b.bands[band]])
}

// BandRange is the range of the output in a block that a band computes, in numbers.
func (b *BlockSlide) BandRange(band int) (from, to int) {
	row := b.Out[2] * b.lanes()
	return band * b.rows() * row, min((band+1)*b.rows(), b.Out[1]) * row
}
