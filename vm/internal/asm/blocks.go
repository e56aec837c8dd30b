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

	blockLen      = 16 // gemm.BlockLen
	flagFirst     = 1 << 0
	flagBlockBias = 1 << 1
	flagAdded     = 1 << 2
	flagBlockLow  = 1 << 3
	flagBlockHigh = 1 << 4
)

// weightsAhead is how many depths ahead weights are prefetched.
const weightsAhead = 32

// blockRowsOf returns the most pixels of a strip: as many as the registers hold with two
// vectors of sums for each, two of weights, and two numbers of the image.
func blockRowsOf(s set) int {
	if s.lanes == 16 {
		return 14
	}
	return 6
}

// blocks convolves pixels of an image in NCHW16c, or adds to what is there. At each step, 16
// channels of each pixel meet as many rows of weights.
func blocks(s set) {
	name := "blocks" + s.name
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(name + " convolves lines of pixels with weights for two vectors of channels or, with AVX-512, one.")
	Load(Param("p"), args)
	Label("line")
	load(denseA, strip)
	load(denseC, c)
	load(denseRows, rows)
	forms := []columns{{"both", 2, 2, false}}
	if s.lanes == blockLen {
		CMPQ(Mem{Base: args, Disp: denseColumn}, Imm(1))
		JEQ(LabelRef("single"))
		forms = append(forms, columns{"single", 1, 1, false})
	}
	for _, k := range forms {
		Label(k.name)
		// The next strip has as many pixels as the others, or those that are left.
		load(denseStrip, count)
		CMPQ(rows, count)
		CMOVQLT(rows, count)
		for r := blockRowsOf(s); r >= 1; r-- {
			here := fmt.Sprintf("%s%d", k.name, r)
			if r > 1 {
				CMPQ(count, Imm(uint64(r)))
				JLT(LabelRef(fmt.Sprintf("%s%d", k.name, r-1)))
			}
			s.blocksBody(here, r, k.vectors)
			MOVQ(U32(uint32(r)), blockPixels)
			if r < blockRowsOf(s) {
				JMP(LabelRef(k.name + "tails"))
			} else {
				s.storeBlocks(here, r, k.vectors)
				Label(k.name + "advance")
				load(denseARow, RAX)
				IMULQ(blockPixels, RAX)
				ADDQ(RAX, strip)
				SUBQ(blockPixels, rows)
				SHLQ(Imm(6), blockPixels) // bytes of a pixel
				ADDQ(blockPixels, c)
				TESTQ(rows, rows)
				JG(LabelRef(k.name))
				JMP(LabelRef("next"))
			}
			if r > 1 {
				Label(fmt.Sprintf("%s%d", k.name, r-1))
			}
		}
		s.blocksTails(k.name, blockRowsOf(s)-1, k.vectors)
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

// blocksBody adds up r pixels for all channels of a strip of weights.
func (s set) blocksBody(label string, r, vectors int) {
	var (
		acc     = func(i, v int) VecPhysical { return s.vectors[i*vectors+v] }
		free    = s.vectors[r*vectors:]
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
	Comment(fmt.Sprintf("%d pixels, %d vectors", r, vectors))
	load(denseARow, step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	load(denseSteps, steps)
	load(denseB, weights)
	load(denseCount, left)
	SHLQ(Imm(2), left) // left counts quarters of steps: there is no register for a second counter
	// Prefetch what is needed when the sums are complete.
	load(denseBlock, pixels[0])
	for i := range r {
		PREFETCHT0(Mem{Base: c, Disp: 4 * blockLen * i})
		if vectors*s.lanes > blockLen {
			PREFETCHT0(Mem{Base: c, Index: pixels[0], Scale: 1, Disp: 4 * blockLen * i})
		}
	}
	for i := range r * vectors {
		s.zero(s.vectors[i])
	}
	TESTQ(left, left)
	JZ(LabelRef(label + "store"))
	Label(label + "step")
	MOVQ(Mem{Base: steps}, pixels[0])
	MOVQ(Mem{Base: steps, Disp: 8}, b)
	ADDQ(strip, pixels[0])
	ADDQ(weights, b)
	ADDQ(Imm(16), steps)
	for i := 1; i < (r+3)/4; i++ {
		LEAQ(Mem{Base: pixels[i-1], Index: step, Scale: 4}, pixels[i])
	}
	Label(label + "quarter")
	for depth := range blockLen / 4 {
		for at := 0; at < vectors*size; at += 64 {
			PREFETCHT0(Mem{Base: b, Disp: (weightsAhead+depth)*width + at})
		}
		for v := range vectors {
			VMOVUPS(Mem{Base: b, Disp: depth*width + v*size}, free[v])
		}
		for i := range r {
			x := free[vectors]
			if len(free) > vectors+1 {
				x = free[vectors+i%2]
			}
			VBROADCASTSS(pixel(i, depth), x)
			for v := range vectors {
				VFMADD231PS(free[v], x, acc(i, v))
			}
		}
	}
	for i := range (r + 3) / 4 {
		ADDQ(Imm(blockLen), pixels[i]) // bytes of a quarter of a block
	}
	ADDQ(U32(uint32(blockLen/4*width)), b)
	DECQ(left)
	TESTQ(U32(3), left)
	JNZ(LabelRef(label + "quarter"))
	TESTQ(left, left)
	JNZ(LabelRef(label + "step"))
	Label(label + "store")
}

// The registers of the epilogue.
var (
	blockFlags  = R12
	blockSecond = RAX // where the second block of AVX-512 begins
	blockAdded  = RBX // from what is written to what is added
)

// blockPlace is where vector v of pixel i is written.
func (s set) blockPlace(i, v int) Mem {
	switch {
	case s.lanes < blockLen:
		return Mem{Base: c, Disp: 4*blockLen*i + 4*s.lanes*v}
	case v == 0:
		return Mem{Base: c, Disp: 4 * blockLen * i}
	}
	return Mem{Base: blockSecond, Disp: 4 * blockLen * i}
}

func blockAddedTo(m Mem) Mem {
	m.Index, m.Scale = blockAdded, 1
	return m
}

func loadBlockEpilogue() {
	load(denseFlags, blockFlags)
	load(denseBlock, blockSecond)
	ADDQ(c, blockSecond)
	load(denseAdded, blockAdded)
}

// storeBlocks applies the epilogue to the sums of r pixels, and writes them.
func (s set) storeBlocks(label string, r, vectors int) {
	acc := func(i, v int) VecPhysical { return s.vectors[i*vectors+v] }
	free, size, at := s.vectors[r*vectors:], 4*s.lanes, s.blockPlace
	x := free[0]
	loadBlockEpilogue()
	each := func(f func(i, v int)) {
		for v := range vectors {
			for i := range r {
				f(i, v)
			}
		}
	}
	when := func(flag int, name string, f func()) { whenSet(blockFlags, flag, label+name, f) }
	TESTQ(U32(flagFirst), blockFlags)
	JNZ(LabelRef(label + "first"))
	each(func(i, v int) { VADDPS(at(i, v), acc(i, v), acc(i, v)) })
	Label(label + "first")
	when(flagBlockBias, "bias", func() {
		load(denseBias, R13)
		for v := range vectors {
			VMOVUPS(Mem{Base: R13, Disp: v * size}, x)
			for i := range r {
				VADDPS(x, acc(i, v), acc(i, v))
			}
		}
	})
	when(flagAdded, "added", func() {
		each(func(i, v int) { VADDPS(blockAddedTo(at(i, v)), acc(i, v), acc(i, v)) })
	})
	when(flagBlockLow, "low", func() { s.atLeast(denseLow, x, free[1], each, acc) })
	when(flagBlockHigh, "high", func() { s.atMost(denseHigh, x, each, acc) })
	each(func(i, v int) { VMOVUPS(acc(i, v), at(i, v)) })
}

// blocksTails is storeBlocks for blockPixels pixels, at most most: it begins at the last one, so
// that the code for a pixel is there once, and not for each number of them.
func (s set) blocksTails(form string, most, vectors int) {
	free, size, at := s.vectors[most*vectors:], 4*s.lanes, s.blockPlace
	bias, low, high, zero := free[:vectors], free[vectors], free[vectors+1], free[vectors+2]
	here := func(i int) string { return fmt.Sprintf("%stail%d", form, i) }
	Comment("The epilogue of fewer pixels")
	Label(form + "tails")
	loadBlockEpilogue()
	whenSet(blockFlags, flagBlockBias, form+"tails0", func() {
		load(denseBias, R13)
		for v, x := range bias {
			VMOVUPS(Mem{Base: R13, Disp: v * size}, x)
		}
	})
	VBROADCASTSS(Mem{Base: args, Disp: denseLow}, low)
	VBROADCASTSS(Mem{Base: args, Disp: denseHigh}, high)
	s.zero(zero)
	for i := 1; i < most; i++ {
		CMPQ(blockPixels, Imm(uint64(i)))
		JEQ(LabelRef(here(i)))
	}
	for i := most; i >= 1; i-- {
		Label(here(i))
		each := func(f func(v int, y VecPhysical)) {
			for v := range vectors {
				f(v, s.vectors[(i-1)*vectors+v])
			}
		}
		when := func(flag int, name string, f func(v int, y VecPhysical)) {
			whenSet(blockFlags, flag, here(i)+name, func() { each(f) })
		}
		TESTQ(U32(flagFirst), blockFlags)
		JNZ(LabelRef(here(i) + "first"))
		each(func(v int, y VecPhysical) { VADDPS(at(i-1, v), y, y) })
		Label(here(i) + "first")
		when(flagBlockBias, "bias", func(v int, y VecPhysical) { VADDPS(bias[v], y, y) })
		when(flagAdded, "added", func(v int, y VecPhysical) { VADDPS(blockAddedTo(at(i-1, v)), y, y) })
		when(flagBlockLow, "low", func(_ int, y VecPhysical) {
			VMAXPS(y, low, y)
			VADDPS(zero, y, y) // -0 becomes 0
		})
		when(flagBlockHigh, "high", func(_ int, y VecPhysical) { VMINPS(y, high, y) })
		each(func(v int, y VecPhysical) { VMOVUPS(y, at(i-1, v)) })
	}
	JMP(LabelRef(form + "advance"))
}
