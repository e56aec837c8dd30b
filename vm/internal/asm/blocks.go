package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.blockPanel. blocks_amd64.go checks them at compile time.
const (
	denseA      = 0
	denseB      = 8
	denseC      = 16
	denseSteps  = 24
	denseCount  = 32
	denseRows   = 40
	denseStrip  = 48
	denseARow   = 56
	denseLines  = 64
	denseALine  = 72
	denseCLine  = 80
	denseBlock  = 88
	denseAdded  = 96
	denseBias   = 104
	denseFlags  = 112
	denseColumn = 120
	denseLow    = 128
	denseHigh   = 132
	denseSecond = 136
	denseTail   = 144
	denseTailB  = 152
	denseNext   = 168
	densePasses = 176

	blockLen      = 16 // gemm.BlockLen
	flagFirst     = 1 << 0
	flagBlockBias = 1 << 1
	flagAdded     = 1 << 2
	flagBlockLow  = 1 << 3
	flagBlockHigh = 1 << 4
)

// weightsAhead is how many depths ahead weights are prefetched.
const weightsAhead = 32

// channelsAhead is how many steps of a thin image ahead its pixels are prefetched: more are too
// many lines of one set where channels lie a power of two apart. Behind the steps follow as many
// that lead nowhere: gemm.thinAhead.
const channelsAhead = 6

// blockRowsOf returns the most pixels of a strip: as many as the registers hold with two
// vectors of sums for each, two of weights, and two numbers of the image.
func blockRowsOf(s set) int {
	if s.lanes == 16 {
		return 14
	}
	return 6
}

// blockForm is a strip of weights: the lanes of the vectors of a row. A vector of half a block is
// the last of the result, whose pixels lie half a block apart.
type blockForm struct {
	name   string
	halves int // blockPanel.halves
	lanes  []int
}

// blockForms lists the strips of weights, the widest first.
func blockForms(s set) []blockForm {
	if s.lanes < blockLen {
		return []blockForm{{"both", 2, []int{8, 8}}, {"single", 1, []int{8}}}
	}
	return []blockForm{{"both", 4, []int{16, 16}}, {"half", 3, []int{16, 8}}, {"single", 2, []int{16}}, {"quarter", 1, []int{8}}}
}

// narrow reports whether a vector is half a register.
func (f blockForm) narrow(s set) bool { return f.lanes[len(f.lanes)-1] < s.lanes }

// pixel is the distance of the result's pixels in bytes, and second that of those of the second
// block, which is not the first with AVX2.
func (f blockForm) pixel(s set) int {
	if s.lanes < blockLen {
		return 4 * s.lanes * len(f.lanes)
	}
	return 4 * f.lanes[0]
}

func (f blockForm) second() int { return 4 * f.lanes[len(f.lanes)-1] }

// half is the part of a register that AVX2 knows. With AVX-512 alone it must be one of the first
// 16.
func half(r Physical) VecPhysical { return r.(VecPhysical).AsY().(VecPhysical) }

// sum is the register of the sums of vector v of pixel i. Halves have the first 16 registers.
func (f blockForm) sum(s set, i, v int) VecPhysical {
	switch {
	case !f.narrow(s):
		return s.vectors[i*len(f.lanes)+v]
	case f.lanes[v] < s.lanes:
		return half(s.vectors[i])
	}
	return s.vectors[16+i]
}

// spare is a register that is free beside the sums of r pixels, in the size of vector v. Those
// of a form with halves count from the last of the first 16 on.
func (f blockForm) spare(s set, r, v, n int) VecPhysical {
	switch {
	case !f.narrow(s):
		return s.vectors[r*len(f.lanes)+n]
	case f.lanes[v] < s.lanes:
		return half(s.vectors[15-n])
	}
	return s.vectors[15-n]
}

// row is the register of vector v of a row of weights.
func (f blockForm) row(s set, r, v int) VecPhysical {
	if f.narrow(s) && f.lanes[v] == s.lanes {
		return s.vectors[31]
	}
	if f.narrow(s) {
		return f.spare(s, r, v, 1)
	}
	return f.spare(s, r, v, v)
}

// number is the register of a number of pixel i in the size of vector v.
func (f blockForm) number(s set, r, v, i int) VecPhysical {
	vectors := len(f.lanes)
	switch {
	case f.narrow(s):
		return f.spare(s, r, v, 0)
	case (r+1)*vectors+1 < len(s.vectors):
		return f.spare(s, r, v, vectors+i%2)
	}
	return f.spare(s, r, v, vectors)
}

// blocks convolves pixels of an image in NCHW16c, or adds to what is there. At each step, 16
// channels of each pixel meet as many rows of weights; in the end, 8 of a last half of a block. Of
// a thin image, in NCHW, a step is one channel.
func blocks(s set, thin bool) { blocksNamed("blocks", s, thin, false) }

// blocksAhead is blocks with AVX-512 that prefetches, in the place of the weights that it is about to
// read, some of those that follow: see termsAhead, and blockPanel.next. Of a thin image it prefetches
// the pixels of a later step, which lie in another page, and the weights as blocks does.
func blocksAhead(thin bool) { blocksNamed("aheadBlocks", avx512, thin, true) }

func blocksNamed(name string, s set, thin, ahead bool) {
	name += s.name
	switch {
	case thin && ahead:
		name = "aheadThinBlocks" + s.name
	case thin:
		name = "thinBlocks" + s.name
	}
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(name + " convolves lines of pixels with weights for some halves of blocks.")
	Load(Param("p"), args)
	Label("line")
	load(denseA, strip)
	load(denseC, c)
	load(denseRows, rows)
	forms := blockForms(s)
	for _, f := range forms[1:] {
		CMPQ(Mem{Base: args, Disp: denseColumn}, Imm(uint64(f.halves)))
		JEQ(LabelRef(f.name))
	}
	for _, f := range forms {
		Label(f.name)
		// The next strip has as many pixels as the others, or those that are left.
		load(denseStrip, count)
		CMPQ(rows, count)
		CMOVQLT(rows, count)
		for r := blockRowsOf(s); r >= 1; r-- {
			here := fmt.Sprintf("%s%d", f.name, r)
			if r > 1 {
				CMPQ(count, Imm(uint64(r)))
				JLT(LabelRef(fmt.Sprintf("%s%d", f.name, r-1)))
			}
			s.blocksBody(here, r, f, thin, ahead)
			MOVQ(U32(uint32(r)), blockPixels)
			if r < blockRowsOf(s) {
				JMP(LabelRef(f.name + "tails"))
			} else {
				s.storeBlocks(here, r, f)
				Label(f.name + "advance")
				s.advanceBlocks(f)
				JMP(LabelRef("next"))
			}
			if r > 1 {
				Label(fmt.Sprintf("%s%d", f.name, r-1))
			}
		}
		s.blocksTails(f, blockRowsOf(s)-1)
	}
	Label("next")
	load(denseALine, RAX)
	ADDQ(RAX, Mem{Base: args, Disp: denseA})
	load(denseCLine, RAX)
	ADDQ(RAX, Mem{Base: args, Disp: denseC})
	DECQ(Mem{Base: args, Disp: denseLines})
	JNZ(LabelRef("line"))
	VZEROUPPER()
	RET()
}

// blockPixels counts the pixels of a strip whose sums are complete.
var blockPixels = R15

// advanceBlocks goes on to the next strip of pixels, if there is one.
func (s set) advanceBlocks(f blockForm) {
	load(denseARow, RAX)
	IMULQ(blockPixels, RAX)
	ADDQ(RAX, strip)
	CMPQ(Mem{Base: args, Disp: denseTail}, Imm(0))
	JEQ(LabelRef(f.name + "whole"))
	SHRQ(Imm(1), RAX)
	ADDQ(RAX, Mem{Base: args, Disp: denseTail})
	Label(f.name + "whole")
	SUBQ(blockPixels, rows)
	SHLQ(Imm(5), blockPixels) // bytes of half a pixel
	if s.lanes == blockLen && len(f.lanes) == 2 && f.narrow(s) {
		ADDQ(blockPixels, Mem{Base: args, Disp: denseSecond})
	}
	if f.pixel(s) == 4*blockLen {
		ADDQ(blockPixels, blockPixels)
	}
	ADDQ(blockPixels, c)
	TESTQ(rows, rows)
	JG(LabelRef(f.name))
}

// blocksBody adds up r pixels for all channels of a strip of weights.
func (s set) blocksBody(label string, r int, f blockForm, thin, ahead bool) {
	var (
		size    = 4 * s.lanes
		width   = 2 * size // bytes of a row of weights
		steps   = R12
		left    = R15
		weights = R14
		pixels  = []GPPhysical{RAX, RBX, R11, R10}
	)
	pixel := func(i, depth int) Mem {
		m := rowOf(pixels[i/4], step, step3, i)
		m.Disp = 4 * depth
		return m
	}
	others := func() {
		for i := 1; i < (r+3)/4; i++ {
			LEAQ(Mem{Base: pixels[i-1], Index: step, Scale: 4}, pixels[i])
		}
	}
	Comment(fmt.Sprintf("%d pixels, %s", r, f.name))
	load(denseARow, step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	load(denseSteps, steps)
	load(denseB, weights)
	load(denseCount, left)
	depths := 1 // that follow each other without a jump
	if !thin {
		depths = blockLen / 4
		SHLQ(Imm(2), left) // left counts quarters of steps: there is no register for a second counter
	}
	// Prefetch what is needed when the sums are complete.
	s.secondBlock(f, pixels[0])
	for i := range r {
		PREFETCHT0(Mem{Base: c, Disp: f.pixel(s) * i})
		if s.lanes == blockLen && len(f.lanes) == 2 {
			PREFETCHT0(Mem{Base: pixels[0], Disp: f.second() * i})
		}
	}
	for i := range r {
		for v := range f.lanes {
			s.zero(f.sum(s, i, v))
		}
	}
	TESTQ(left, left)
	JZ(LabelRef(label + "done"))
	next := args // restored in the end
	if ahead && !thin {
		DECQ(Mem{Base: args, Disp: densePasses})
		JGE(LabelRef(label + "more"))
		MOVQ(Mem{Base: steps, Disp: 8}, next) // what is in the cache
		ADDQ(weights, next)
		JMP(LabelRef(label + "step"))
		Label(label + "more")
		load(denseNext, next)
	}
	Label(label + "step")
	MOVQ(Mem{Base: steps}, pixels[0])
	MOVQ(Mem{Base: steps, Disp: 8}, b)
	ADDQ(strip, pixels[0])
	ADDQ(weights, b)
	ADDQ(Imm(16), steps)
	others()
	Label(label + "quarter")
	for depth := range depths {
		if ahead && !thin && depth < linesAhead {
			PREFETCHT1(Mem{Base: next, Disp: 64 * depth})
		}
		for at := 0; at < len(f.lanes)*size && (thin || !ahead); at += 64 {
			PREFETCHT0(Mem{Base: b, Disp: (weightsAhead+depth)*width + at})
		}
		for v := range f.lanes {
			VMOVUPS(Mem{Base: b, Disp: depth*width + v*size}, f.row(s, r, v))
		}
		if ahead && thin {
			MOVQ(Mem{Base: steps, Disp: 16 * (channelsAhead - 1)}, b)
			PREFETCHT0(Mem{Base: strip, Index: b, Scale: 1})
			PREFETCHT0(Mem{Base: strip, Index: b, Scale: 1, Disp: 4 * (blockRowsOf(s) - 1)})
		}
		for i := range r {
			VBROADCASTSS(pixel(i, depth), f.number(s, r, 0, i))
			for v := range f.lanes {
				VFMADD231PS(f.row(s, r, v), f.number(s, r, v, i), f.sum(s, i, v))
			}
		}
	}
	if thin {
		DECQ(left)
		JNZ(LabelRef(label + "step"))
		Label(label + "done")
		return
	}
	for i := range (r + 3) / 4 {
		ADDQ(Imm(blockLen), pixels[i]) // bytes of a quarter of a block
	}
	ADDQ(U32(uint32(blockLen/4*width)), b)
	if ahead {
		ADDQ(U32(64*linesAhead), next)
	}
	DECQ(left)
	TESTQ(U32(3), left)
	JNZ(LabelRef(label + "quarter"))
	TESTQ(left, left)
	JNZ(LabelRef(label + "step"))
	if ahead && !thin {
		Load(Param("p"), RAX)
		MOVQ(next, Mem{Base: RAX, Disp: denseNext})
		MOVQ(RAX, args)
	}
	Label(label + "done")
	// Two quarters of a last half of a block are left, if it was not that.
	CMPQ(Mem{Base: args, Disp: denseTail}, Imm(0))
	JEQ(LabelRef(label + "store"))
	CMPQ(step, Mem{Base: args, Disp: denseARow})
	JNE(LabelRef(label + "store"))
	SHRQ(Imm(1), step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	load(denseTail, pixels[0])
	load(denseTailB, b)
	others()
	MOVQ(U32(2), left)
	if ahead {
		load(denseNext, next)
	}
	JMP(LabelRef(label + "quarter"))
	Label(label + "store")
}

// The registers of the epilogue.
var (
	blockFlags  = R12
	blockSecond = RAX // where the second block of AVX-512 begins
	blockAdded  = RBX // from what is written to what is added
)

// secondBlock loads where the second block of AVX-512 is written.
func (s set) secondBlock(f blockForm, to GPPhysical) {
	switch {
	case s.lanes < blockLen || len(f.lanes) < 2:
	case f.narrow(s):
		load(denseSecond, to)
	default:
		load(denseBlock, to)
		ADDQ(c, to)
	}
}

// blockPlace is where vector v of pixel i is written.
func (s set) blockPlace(f blockForm, i, v int) Mem {
	switch {
	case s.lanes < blockLen:
		return Mem{Base: c, Disp: f.pixel(s)*i + 4*s.lanes*v}
	case v == 0:
		return Mem{Base: c, Disp: f.pixel(s) * i}
	}
	return Mem{Base: blockSecond, Disp: f.second() * i}
}

func blockAddedTo(m Mem) Mem {
	m.Index, m.Scale = blockAdded, 1
	return m
}

func (s set) loadBlockEpilogue(f blockForm) {
	load(denseFlags, blockFlags)
	s.secondBlock(f, blockSecond)
	load(denseAdded, blockAdded)
}

// storeBlocks applies the epilogue to the sums of r pixels, and writes them.
func (s set) storeBlocks(label string, r int, f blockForm) {
	size := 4 * s.lanes
	at := func(i, v int) Mem { return s.blockPlace(f, i, v) }
	acc := func(i, v int) VecPhysical { return f.sum(s, i, v) }
	spare := func(v, n int) VecPhysical { return f.spare(s, r, v, n) }
	s.loadBlockEpilogue(f)
	each := func(do func(i, v int)) {
		for v := range f.lanes {
			for i := range r {
				do(i, v)
			}
		}
	}
	when := func(flag int, name string, do func()) { whenSet(blockFlags, flag, label+name, do) }
	TESTQ(U32(flagFirst), blockFlags)
	JNZ(LabelRef(label + "first"))
	each(func(i, v int) { VADDPS(at(i, v), acc(i, v), acc(i, v)) })
	Label(label + "first")
	when(flagBlockBias, "bias", func() {
		load(denseBias, R13)
		for v := range f.lanes {
			VMOVUPS(Mem{Base: R13, Disp: v * size}, spare(v, 0))
			for i := range r {
				VADDPS(spare(v, 0), acc(i, v), acc(i, v))
			}
		}
	})
	when(flagAdded, "added", func() {
		each(func(i, v int) { VADDPS(blockAddedTo(at(i, v)), acc(i, v), acc(i, v)) })
	})
	when(flagBlockLow, "low", func() {
		VBROADCASTSS(Mem{Base: args, Disp: denseLow}, spare(0, 0))
		s.zero(spare(0, 1))
		each(func(i, v int) {
			VMAXPS(acc(i, v), spare(v, 0), acc(i, v))
			VADDPS(spare(v, 1), acc(i, v), acc(i, v)) // -0 becomes 0
		})
	})
	when(flagBlockHigh, "high", func() {
		VBROADCASTSS(Mem{Base: args, Disp: denseHigh}, spare(0, 0))
		each(func(i, v int) { VMINPS(acc(i, v), spare(v, 0), acc(i, v)) })
	})
	each(func(i, v int) { VMOVUPS(acc(i, v), at(i, v)) })
}

// blocksTails is storeBlocks for blockPixels pixels, at most most: it begins at the last one, so
// that the code for a pixel is there once, and not for each number of them.
func (s set) blocksTails(f blockForm, most int) {
	form, size := f.name, 4*s.lanes
	at := func(i, v int) Mem { return s.blockPlace(f, i, v) }
	spare := func(v, n int) VecPhysical { return f.spare(s, most, v, n) }
	low, high, zero := 0, 1, 2
	here := func(i int) string { return fmt.Sprintf("%stail%d", form, i) }
	Comment("The epilogue of fewer pixels")
	Label(form + "tails")
	s.loadBlockEpilogue(f)
	load(denseBias, R13)
	VBROADCASTSS(Mem{Base: args, Disp: denseLow}, spare(0, low))
	VBROADCASTSS(Mem{Base: args, Disp: denseHigh}, spare(0, high))
	s.zero(spare(0, zero))
	for i := 1; i < most; i++ {
		CMPQ(blockPixels, Imm(uint64(i)))
		JEQ(LabelRef(here(i)))
	}
	for i := most; i >= 1; i-- {
		Label(here(i))
		each := func(do func(v int, y VecPhysical)) {
			for v := range f.lanes {
				do(v, f.sum(s, i-1, v))
			}
		}
		when := func(flag int, name string, do func(v int, y VecPhysical)) {
			whenSet(blockFlags, flag, here(i)+name, func() { each(do) })
		}
		TESTQ(U32(flagFirst), blockFlags)
		JNZ(LabelRef(here(i) + "first"))
		each(func(v int, y VecPhysical) { VADDPS(at(i-1, v), y, y) })
		Label(here(i) + "first")
		when(flagBlockBias, "bias", func(v int, y VecPhysical) { VADDPS(Mem{Base: R13, Disp: v * size}, y, y) })
		when(flagAdded, "added", func(v int, y VecPhysical) { VADDPS(blockAddedTo(at(i-1, v)), y, y) })
		when(flagBlockLow, "low", func(v int, y VecPhysical) {
			VMAXPS(y, spare(v, low), y)
			VADDPS(spare(v, zero), y, y) // -0 becomes 0
		})
		when(flagBlockHigh, "high", func(v int, y VecPhysical) { VMINPS(y, spare(v, high), y) })
		each(func(v int, y VecPhysical) { VMOVUPS(y, at(i-1, v)) })
	}
	JMP(LabelRef(form + "advance"))
}
