package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.blockSliding, and of gemm.blockBox, of which there is a
// list. blocks_slide_amd64.go checks them at compile time.
const (
	offBlocksDst     = 0
	offBlocksSrc     = 8
	offBlocksWeights = 16
	offBlocksTaps    = 24
	offBlocksBias    = 32
	offBlocksFlag    = 40
	offBlocksLow     = 48
	offBlocksHigh    = 52

	offBoxDst     = 0
	offBoxSrc     = 8
	offBoxTaps    = 16
	offBoxCount   = 24
	offBoxColumns = 32
	offBoxRows    = 40
	offBoxPixels  = 48
	offBoxDstNext = 56
	offBoxSrcNext = 64
	offBoxDstStep = 72
	offBoxSrcStep = 80
	offBoxStride  = 88 // 32 bits
	offBoxDivisor = 92
	sizeOfBox     = 96
)

const blockPixel = 64 // bytes of a pixel of a block

// blockSlide joins the pixels under a kernel that slides over a block of channels. The output
// is a list of boxes: rows of pixels whose taps lie at the same places. Several pixels of a
// row are in registers together, so many that no tap waits for the one before, and each tap
// reads its weights once for all of them.
type blockSlide struct {
	name, doc string
	most      [2]int // pixels together: with AVX2 and with AVX-512
	sets      int    // of registers for each pixel
	half      bool   // a pixel is half a block, and so one vector of AVX2

	wide   bool // AVX-512
	stride int  // pixels of the image from one of a row to the next; 0: as the box says
	pixels int  // together
	label  string
}

var blockSlides = []blockSlide{
	{name: "weigh", doc: "the weighted sums of the pixels under a kernel", most: [2]int{6, 14}, sets: 1},
	{name: "weigh", doc: "the weighted sums of halves of the pixels under a kernel", most: [2]int{12}, sets: 1, half: true},
	{name: "largest", doc: "the largest of the pixels under a kernel, NaN if one is NaN,", most: [2]int{6, 8}, sets: 1},
	{name: "average", doc: "the sums of the pixels under a kernel, column by column, divided by a number", most: [2]int{3, 8}, sets: 2},
}

var (
	blockArgs, blockBox, blockEnd          = RDI, RSI, RDX
	blockSrc, blockDst, blockTap, blockAt  = R8, R9, RAX, R14
	blockRowSrc, blockRowDst               = R10, R11
	blockLeft, blockRows                   = R12, R13
	blockWeights, blockColumns, blockCount = RBX, RBX, RCX
	blockMasks                             = []OpmaskPhysical{K1, K2, K3, K4, K5, K6, K7}
)

// write writes the function for a level.
func (s blockSlide) write(wide bool) {
	s.wide = wide
	level := "AVX2"
	if wide {
		level = "AVX512"
	}
	name := s.name + "Blocks" + level
	if s.half {
		name = s.name + "Halves" + level
	}
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte, boxes *byte, count int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes %s for each box of a list.", name, s.doc))
	Load(Param("p"), blockArgs)
	Load(Param("boxes"), blockBox)
	Load(Param("count"), blockEnd)
	IMUL3Q(Imm(sizeOfBox), blockEnd, blockEnd)
	ADDQ(blockBox, blockEnd)
	if s.name == "weigh" {
		s.clear(s.zero())
	}
	Label("box")
	MOVQ(s.of(offBoxDst), blockRowDst)
	ADDQ(Mem{Base: blockArgs, Disp: offBlocksDst}, blockRowDst)
	MOVQ(s.of(offBoxSrc), blockRowSrc)
	ADDQ(Mem{Base: blockArgs, Disp: offBlocksSrc}, blockRowSrc)
	MOVQ(s.of(offBoxRows), blockRows)
	CMPL(s.of(offBoxStride), Imm(1))
	JEQ(LabelRef("row1"))
	JGT(LabelRef("row2"))
	for s.stride = range 3 {
		s.rows()
	}
	Label("next")
	ADDQ(Imm(sizeOfBox), blockBox)
	CMPQ(blockBox, blockEnd)
	JNE(LabelRef("box"))
	VZEROUPPER()
	RET()
}

// rows computes a box. Of a row that is longer than the registers hold, but not twice as
// long, it takes two equal parts: a short part would wait for its sums.
func (s blockSlide) rows() {
	most := s.together()
	if s.stride == 0 {
		most = min(most, 8) // the additions to addresses take more time than the taps
	}
	row, part, choose, next := fmt.Sprintf("row%d", s.stride), fmt.Sprintf("part%d", s.stride), fmt.Sprintf("choose%d", s.stride), fmt.Sprintf("next%d", s.stride)
	Label(row)
	MOVQ(blockRowSrc, blockSrc)
	MOVQ(blockRowDst, blockDst)
	MOVQ(s.of(offBoxPixels), blockLeft)
	Label(part)
	MOVQ(blockLeft, blockAt)
	CMPQ(blockLeft, Imm(uint64(most)))
	JLE(LabelRef(choose))
	CMPQ(blockLeft, Imm(uint64(2*most)))
	JGE(LabelRef(s.labelOf(most)))
	INCQ(blockAt)
	SHRQ(Imm(1), blockAt)
	Label(choose)
	s.choose(1, most)
	for s.pixels = most; s.pixels > 0; s.pixels-- {
		s.label = s.labelOf(s.pixels)
		Label(s.label)
		MOVQ(s.of(offBoxTaps), blockTap)
		ADDQ(Mem{Base: blockArgs, Disp: offBlocksTaps}, blockTap)
		switch s.name {
		case "weigh":
			s.weigh()
		case "largest":
			s.largest()
		case "average":
			s.average()
		}
		s.store()
		SUBQ(Imm(uint64(s.pixels)), blockLeft)
		JNZ(LabelRef(part))
		JMP(LabelRef(next))
		if s.name == "weigh" {
			s.outside()
		}
	}
	Label(next)
	ADDQ(s.of(offBoxSrcNext), blockRowSrc)
	ADDQ(s.of(offBoxDstNext), blockRowDst)
	DECQ(blockRows)
	JNZ(LabelRef(row))
	JMP(LabelRef("next"))
}

func (s *blockSlide) labelOf(pixels int) string { return fmt.Sprintf("by%dx%d", s.stride, pixels) }

// choose jumps to the code for as many pixels as blockAt says, of least to most.
func (s *blockSlide) choose(least, most int) {
	if least == most {
		JMP(LabelRef(s.labelOf(least)))
		return
	}
	half := (least + most) / 2
	above := fmt.Sprintf("%sabove%d", s.labelOf(least), half)
	CMPQ(blockAt, Imm(uint64(half)))
	JG(LabelRef(above))
	s.choose(least, half)
	Label(above)
	s.choose(half+1, most)
}

// of is a field of the box.
func (s *blockSlide) of(off int) Mem { return Mem{Base: blockBox, Disp: off} }

// together is the largest number of pixels together.
func (s *blockSlide) together() int {
	if s.wide {
		return s.most[1]
	}
	return s.most[0]
}

// vectors is the number of vectors of a pixel.
func (s *blockSlide) vectors() int {
	if s.wide || s.half {
		return 1
	}
	return 2
}

// pixel is the size of a pixel in bytes.
func (s *blockSlide) pixel() int {
	if s.half {
		return blockPixel / 2
	}
	return blockPixel
}

func (s *blockSlide) register(n int) VecPhysical {
	if s.wide {
		return []VecPhysical{
			Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18,
		}[n]
	}
	return []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}[n]
}

// sum, column and spare are registers: of the result for a pixel, of the column of taps that
// is added up, and what is left. zero is one of the latter.
func (s *blockSlide) sum(pixel, half int) VecPhysical {
	return s.register(pixel*s.vectors() + half)
}

func (s *blockSlide) column(pixel, half int) VecPhysical {
	return s.register((s.together()+pixel)*s.vectors() + half)
}

func (s *blockSlide) spare(n int) VecPhysical {
	return s.register(s.together()*s.vectors()*s.sets + n)
}

func (s *blockSlide) zero() VecPhysical { return s.spare(2) }

func (s *blockSlide) clear(y VecPhysical) {
	if s.wide {
		VPXORD(y, y, y)
		return
	}
	VXORPS(y, y, y)
}

// each calls f for each vector.
func (s *blockSlide) each(f func(pixel, half int)) {
	for pixel := range s.pixels {
		for half := range s.vectors() {
			f(pixel, half)
		}
	}
}

// nextTap loads the distance of a tap, and read calls f with the place of each vector that it
// reads.
func (s *blockSlide) nextTap() {
	MOVQ(Mem{Base: blockTap}, blockAt)
	ADDQ(Imm(8), blockTap)
}

func (s *blockSlide) read(f func(pixel, half int, m Mem)) {
	ADDQ(blockSrc, blockAt)
	s.each(func(pixel, half int) {
		if s.stride == 0 && half == 0 && pixel > 0 {
			ADDQ(s.of(offBoxSrcStep), blockAt)
		}
		f(pixel, half, Mem{Base: blockAt, Disp: s.stride*s.pixel()*pixel + blockPixel/2*half})
	})
}

// weigh adds up the taps in their order. What lies outside of the image counts as 0.
func (s *blockSlide) weigh() {
	MOVQ(Mem{Base: blockArgs, Disp: offBlocksBias}, blockAt)
	s.each(func(pixel, half int) { VMOVUPS(Mem{Base: blockAt, Disp: blockPixel / 2 * half}, s.sum(pixel, half)) })
	MOVQ(Mem{Base: blockArgs, Disp: offBlocksWeights}, blockWeights)
	MOVQ(s.of(offBoxCount), blockCount)
	Label(s.label + "tap")
	s.nextTap()
	for half := range s.vectors() {
		VMOVUPS(Mem{Base: blockWeights, Disp: blockPixel / 2 * half}, s.spare(half))
	}
	TESTB(Imm(1), blockAt.As8())
	JNZ(LabelRef(s.label + "outside"))
	s.read(func(pixel, half int, m Mem) { VFMADD231PS(m, s.spare(half), s.sum(pixel, half)) })
	Label(s.label + "next")
	ADDQ(Imm(uint64(s.pixel())), blockWeights)
	DECQ(blockCount)
	JNZ(LabelRef(s.label + "tap"))
	CMPQ(Mem{Base: blockArgs, Disp: offBlocksFlag}, Imm(0))
	JEQ(LabelRef(s.label + "store"))
	low, high := s.spare(0), s.spare(1)
	VBROADCASTSS(Mem{Base: blockArgs, Disp: offBlocksLow}, low)
	VBROADCASTSS(Mem{Base: blockArgs, Disp: offBlocksHigh}, high)
	s.each(func(pixel, half int) {
		y := s.sum(pixel, half)
		VMAXPS(y, low, y)
		VADDPS(s.zero(), y, y)
		VMINPS(y, high, y)
	})
}

// outside is the part of weigh for a tap outside of the image.
func (s *blockSlide) outside() {
	Label(s.label + "outside")
	s.each(func(pixel, half int) { VFMADD231PS(s.zero(), s.spare(half), s.sum(pixel, half)) })
	JMP(LabelRef(s.label + "next"))
}

// largest joins the taps in their order, as a pool does; if the flag is set, NaN gets all
// bits.
func (s *blockSlide) largest() {
	none := placeOf(math.Float32bits(float32(math.Inf(-1))))
	s.each(func(pixel, half int) { VBROADCASTSS(none, s.sum(pixel, half)) })
	MOVQ(s.of(offBoxCount), blockCount)
	TESTQ(blockCount, blockCount)
	JZ(LabelRef(s.label + "store"))
	Label(s.label + "tap")
	s.nextTap()
	s.read(func(pixel, half int, m Mem) {
		y := s.sum(pixel, half)
		if s.wide {
			k := blockMasks[pixel%len(blockMasks)]
			VCMPPS(Imm(7), y, y, k) // is a number
			VMAXPS(m, y, k, y)
			return
		}
		VMOVUPS(m, s.spare(0))
		joins[0].add(s.spare(0), y, s.spare(1))
	})
	DECQ(blockCount)
	JNZ(LabelRef(s.label + "tap"))
	CMPQ(Mem{Base: blockArgs, Disp: offBlocksFlag}, Imm(0))
	JEQ(LabelRef(s.label + "store"))
	if s.wide {
		VPTERNLOGD(Imm(0xff), s.spare(0), s.spare(0), s.spare(0))
	}
	s.each(func(pixel, half int) {
		y := s.sum(pixel, half)
		if s.wide {
			VCMPPS(Imm(3), y, y, K1) // is NaN
			VMOVAPS(s.spare(0), K1, y)
			return
		}
		VCMPPS(Imm(3), y, y, s.spare(0))
		VORPS(s.spare(0), y, y)
	})
}

// average adds up the taps of each column, and then the columns.
func (s *blockSlide) average() {
	s.each(func(pixel, half int) { s.clear(s.sum(pixel, half)) })
	MOVQ(s.of(offBoxColumns), blockColumns)
	TESTQ(blockColumns, blockColumns)
	JZ(LabelRef(s.label + "divide"))
	Label(s.label + "column")
	s.each(func(pixel, half int) { s.clear(s.column(pixel, half)) })
	MOVQ(s.of(offBoxCount), blockCount)
	Label(s.label + "tap")
	s.nextTap()
	s.read(func(pixel, half int, m Mem) { VADDPS(m, s.column(pixel, half), s.column(pixel, half)) })
	DECQ(blockCount)
	JNZ(LabelRef(s.label + "tap"))
	s.each(func(pixel, half int) { VADDPS(s.column(pixel, half), s.sum(pixel, half), s.sum(pixel, half)) })
	DECQ(blockColumns)
	JNZ(LabelRef(s.label + "column"))
	Label(s.label + "divide")
	VBROADCASTSS(s.of(offBoxDivisor), s.spare(0))
	s.each(func(pixel, half int) { VDIVPS(s.spare(0), s.sum(pixel, half), s.sum(pixel, half)) })
}

// store writes the pixels and advances to the next ones.
func (s *blockSlide) store() {
	Label(s.label + "store")
	if s.stride > 0 {
		s.each(func(pixel, half int) {
			VMOVUPS(s.sum(pixel, half), Mem{Base: blockDst, Disp: s.pixel()*pixel + blockPixel/2*half})
		})
		ADDQ(U32(uint32(s.pixel()*s.pixels)), blockDst)
		ADDQ(U32(uint32(s.pixel()*s.pixels*s.stride)), blockSrc)
		return
	}
	MOVQ(s.of(offBoxDstStep), blockAt)
	s.each(func(pixel, half int) {
		VMOVUPS(s.sum(pixel, half), Mem{Base: blockDst, Disp: blockPixel / 2 * half})
		if half == s.vectors()-1 {
			ADDQ(blockAt, blockDst)
		}
	})
	IMUL3Q(Imm(uint64(s.pixels)), s.of(offBoxSrcStep), blockAt)
	ADDQ(blockAt, blockSrc)
}
