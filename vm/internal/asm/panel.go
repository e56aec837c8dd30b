package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.panel. panel_amd64.go checks them at compile time.
const (
	offA        = 0
	offB        = 8
	offC        = 16
	offRows     = 24
	offDepth    = 32
	offAStrip   = 40
	offARow     = 48
	offADeep    = 56
	offBDeep    = 64
	offCRow     = 72
	offFlags    = 80
	offRowBias  = 88
	offColBias  = 96
	offColumns  = 104
	offMask     = 112
	offAlpha    = 120
	offBeta     = 124
	offLow      = 128
	offHigh     = 132
	offZero     = 136
	offWords    = 140
	offFlip     = 142
	offNext     = 144
	offPasses   = 152
	offScales   = 4 * 240 // bytes from a row's bias to its scale: gemm.tileRows
	flagAlpha   = 1 << 0
	flagBeta    = 1 << 1
	flagRowBias = 1 << 2
	flagColBias = 1 << 3
	flagLow     = 1 << 4
	flagHigh    = 1 << 5
	flagBytes   = 1 << 6
)

// set describes an instruction set.
type set struct {
	name    string
	rows    int // of the micro-kernel
	lanes   int // of a vector
	vectors []VecPhysical
	opmask  bool // loads and stores take a mask register, at no cost
	pairs   bool // multiplies pairs of int16 and adds the products to int32 sums
	dots    bool // does so with one instruction
	quads   bool // multiplies quads of bytes, unsigned ones of B with signed ones of A
	columns []columns
	ahead   bool // a strip of all rows can prefetch the next strip of B: see panel.next
}

// columns is a loop body for at least a number of columns of C.
type columns struct {
	name    string
	least   int
	vectors int
	masked  bool // does not read or write columns beyond the last
}

var (
	avx2 = set{
		"AVX2", 6, 8,
		[]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15},
		false, false, false, false,
		// A masked store takes a dozen cycles on some machines.
		[]columns{{"full", 16, 2, false}, {"wide", 9, 2, true}, {"narrow", 1, 1, true}},
		false,
	}
	avx2Pairs = set{avx2.name, avx2.rows, avx2.lanes, avx2.vectors, false, true, false, false, avx2.columns, false}
	avx512    = set{
		"AVX512", 12, 16,
		[]VecPhysical{
			Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
			Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
		},
		true, false, false, false,
		[]columns{{"wide", 17, 2, true}, {"narrow", 1, 1, true}},
		true,
	}
	// Strips of 16 pairs are one vector, so the layout is the same as AVX2's.
	vnniPairs = set{"VNNI", avx512.rows, avx512.lanes, avx512.vectors, true, true, true, false, []columns{{"strip", 1, 1, true}}, false}
	// Two strips, bDeep bytes apart, so that a number of A that is read meets two vectors.
	vnniTwoQuads = set{"Two" + vnniPairs.name, vnniPairs.rows, vnniPairs.lanes, vnniPairs.vectors, true, false, false, true, []columns{{"strips", 1, 2, true}}, true}
	vnniQuads    = set{vnniPairs.name, vnniPairs.rows, vnniPairs.lanes, vnniPairs.vectors, true, false, false, true, vnniPairs.columns, false}
)

// The registers. A strip of A is read through up to three pointers, four rows
// each; the same registers point to the rows of C afterwards.
var (
	args     = RDI
	strip    = RSI // the strip of A
	rows     = R8  // left to do
	c        = R9
	rowBias  = R10
	pointers = []GPPhysical{RAX, RBX, R11}
	step     = RCX // between rows of A, later of C
	step3    = RDX
	deep     = R12 // between depths of A
	b        = R13
	deepB    = R14
	count    = R15
)

// panel multiplies strips of A with one strip of B. It has a body for each shape: first
// those with all vectors of columns, unmasked, then masked ones with fewer columns.
func panel(s set) {
	name, what := "panel"+s.name, "the strips of A with one strip of B"
	if s.pairs {
		name, what = "pairs"+s.name, what+", pairs of int16"
	}
	if s.quads {
		name, what = "quads"+s.name, what+", quads of bytes"
	}
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(name + " multiplies " + what + ".")
	Load(Param("p"), args)
	load(offA, strip)
	load(offC, c)
	load(offRows, rows)
	load(offRowBias, rowBias)
	for i, k := range s.columns {
		if i+1 < len(s.columns) {
			CMPQ(Mem{Base: args, Disp: offColumns}, Imm(uint64(k.least)))
			JLT(LabelRef(s.columns[i+1].name))
		}
		Label(k.name)
		for r := s.rows; r >= 1; r-- {
			here := fmt.Sprintf("%s%d", k.name, r)
			next := fmt.Sprintf("%s%d", k.name, r-1)
			if r == 1 {
				next = "done"
			}
			Label(here)
			CMPQ(rows, Imm(uint64(r)))
			JLT(LabelRef(next))
			s.body(here, r, k.vectors, k.masked)
			if r < s.rows {
				MOVQ(U32(uint32(r)), count)
				JMP(LabelRef(k.name + "tails"))
				continue
			}
			s.store(here, r, k.vectors, k.masked)
			load(offAStrip, RAX)
			ADDQ(RAX, strip)
			load(offCRow, RAX)
			IMUL3Q(Imm(uint64(r)), RAX, RAX)
			ADDQ(RAX, c)
			ADDQ(Imm(uint64(4*r)), rowBias)
			SUBQ(Imm(uint64(r)), rows)
			JMP(LabelRef(here))
		}
		s.storeTails(k.name, s.rows-1, k.vectors, k.masked)
	}
	Label("done")
	VZEROUPPER()
	RET()
}

func load(off int, r GPPhysical) { MOVQ(Mem{Base: args, Disp: off}, r) }

// row is the address of row r, from pointers that are four rows apart.
func row(r int) Mem { return rowOf(pointers[r/4], step, step3, r) }

// rowOf is the address of row r of the four from base on, which are step bytes apart; step3
// is three times step.
func rowOf(base, step, step3 Register, r int) Mem {
	m := Mem{Base: base}
	switch r % 4 {
	case 1:
		m.Index, m.Scale = step, 1
	case 2:
		m.Index, m.Scale = step, 2
	case 3:
		m.Index, m.Scale = step3, 1
	}
	return m
}

// point sets the pointers for n rows, which begin at base and are stride bytes apart.
func point(base GPPhysical, stride, n int) {
	load(stride, step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	MOVQ(base, pointers[0])
	for i := 1; i < (n+3)/4; i++ {
		LEAQ(Mem{Base: pointers[i-1], Index: step, Scale: 4}, pointers[i])
	}
}

// body computes r rows of C.
func (s set) body(label string, r, vectors int, masked bool) {
	acc := func(i, v int) VecPhysical { return s.vectors[i*vectors+v] }
	free := s.vectors[r*vectors:]
	size := 4 * s.lanes

	Comment(fmt.Sprintf("%d rows, %d vectors", r, vectors))
	// Prefetch C, which is needed when the sums are complete.
	point(c, offCRow, r)
	for i := range r {
		PREFETCHT0(row(i))
		if vectors*size > 64 {
			m := row(i)
			m.Disp = 64
			PREFETCHT0(m)
		}
	}
	point(strip, offARow, r)
	load(offB, b)
	load(offADeep, deep)
	load(offBDeep, deepB)
	load(offDepth, count)
	for i := range r * vectors {
		s.zero(s.vectors[i])
	}

	two := s.quads && vectors == 2
	column := func(v int) Mem { // vector v of a row of B
		if two && v == 1 {
			return Mem{Base: b, Index: deepB, Scale: 1}
		}
		return Mem{Base: b, Disp: v * size}
	}
	term := func(near bool) {
		if s.opmask && near { // weights are often in no cache that is near
			PREFETCHT0(Mem{Base: pointers[0], Disp: 1024})
			for v := range vectors {
				m := column(v)
				m.Disp += 2048
				PREFETCHT0(m)
			}
		}
		for v := range vectors {
			VMOVUPS(column(v), free[v])
		}
		if two {
			ADDQ(Imm(64), b)
		} else {
			ADDQ(deepB, b)
		}
		for i := range r {
			// Alternate between two registers if there are two.
			x := free[vectors]
			if len(free) > vectors+1 {
				x = free[vectors+i%2]
			}
			if s.dots {
				for v := range vectors {
					VPDPWSSD_BCST(row(i), free[v], acc(i, v))
				}
				continue
			}
			if two {
				VPBROADCASTD(row(i), x)
				for v := range vectors {
					VPDPBUSD(x, free[v], acc(i, v))
				}
				continue
			}
			if s.quads {
				for v := range vectors {
					VPDPBUSD_BCST(row(i), free[v], acc(i, v))
				}
				continue
			}
			if s.pairs {
				product := free[len(free)-1]
				VPBROADCASTD(row(i), free[vectors])
				for v := range vectors {
					VPMADDWD(free[v], free[vectors], product)
					VPADDD(product, acc(i, v), acc(i, v))
				}
				continue
			}
			VBROADCASTSS(row(i), x)
			for v := range vectors {
				VFMADD231PS(free[v], x, acc(i, v))
			}
		}
		for i := range (r + 3) / 4 {
			ADDQ(deep, pointers[i])
		}
	}
	// Two terms at a time where most of the work is: the bodies for the last rows stay short.
	if r == s.rows {
		if s.ahead && vectors == 2 {
			s.termsAhead(label, two, func() { term(false) })
		}
		SUBQ(Imm(2), count)
		JLT(LabelRef(label + "odd"))
		Label(label + "loop")
		term(true)
		term(true)
		SUBQ(Imm(2), count)
		JGE(LabelRef(label + "loop"))
		Label(label + "odd")
		ADDQ(Imm(2), count)
		JZ(LabelRef(label + "store"))
		term(true)
	} else {
		TESTQ(count, count)
		JZ(LabelRef(label + "store"))
		Label(label + "loop")
		term(true)
		DECQ(count)
		JNZ(LabelRef(label + "loop"))
	}
	Label(label + "store")
}

// linesAhead is how many lines of the next weights are prefetched for each four depths.
const linesAhead = 2

// termsAhead adds up the terms, four at a time, if the panel names the next strip of B, and prefetches
// two lines of it for each four depths (of two strips, one of each), which is a quarter of it. That takes less than what the
// other loop prefetches, and the next strip comes from memory while this one is multiplied.
func (s set) termsAhead(label string, two bool, term func()) {
	const depths, lines = 4, linesAhead
	next := args // restored in the end
	CMPQ(Mem{Base: args, Disp: offNext}, Imm(0))
	JEQ(LabelRef(label + "near"))
	DECQ(Mem{Base: args, Disp: offPasses})
	JGE(LabelRef(label + "more"))
	MOVQ(b, next) // what is in the cache
	JMP(LabelRef(label + "begin"))
	Label(label + "more")
	load(offNext, next)
	Label(label + "begin")
	SUBQ(Imm(depths), count)
	JLT(LabelRef(label + "few"))
	Label(label + "ahead")
	for i := range depths {
		switch {
		case i == 1 && two:
			PREFETCHT1(Mem{Base: next, Index: deepB, Scale: 1})
		case i < lines:
			PREFETCHT1(Mem{Base: next, Disp: 64 * i})
		}
		term()
	}
	if two {
		ADDQ(Imm(64), next)
	} else {
		ADDQ(I32(64*lines), next)
	}
	SUBQ(Imm(depths), count)
	JGE(LabelRef(label + "ahead"))
	Label(label + "few")
	ADDQ(Imm(depths), count)
	JZ(LabelRef(label + "restore"))
	Label(label + "last")
	term()
	DECQ(count)
	JNZ(LabelRef(label + "last"))
	Label(label + "restore")
	Load(Param("p"), RAX)
	MOVQ(next, Mem{Base: RAX, Disp: offNext})
	MOVQ(RAX, args)
	JMP(LabelRef(label + "store"))
	Label(label + "near")
}

// store applies the epilogue to the sums of r rows and writes them to C.
func (s set) store(label string, r, vectors int, masked bool) {
	s.beginStore(r, vectors, masked)
	s.storeRows(label, 0, r, r, vectors, masked)
}

// storeTails is store for fewer rows, count of them, at most most: it begins at the last one, so
// that the code for a row is there once, and not for each number of them.
func (s set) storeTails(form string, most, vectors int, masked bool) {
	here := func(i int) string { return fmt.Sprintf("%stail%d", form, i) }
	Comment("The epilogue of fewer rows")
	Label(form + "tails")
	s.beginStore(most, vectors, masked)
	for i := 1; i < most; i++ {
		CMPQ(count, Imm(uint64(i)))
		JEQ(LabelRef(here(i)))
	}
	for i := most; i >= 1; i-- {
		Label(here(i))
		s.storeRows(here(i), i-1, i, most, vectors, masked)
	}
	JMP(LabelRef("done"))
}

// flags is the register of the epilogue's flags.
var flags = R12

// beginStore loads what the epilogue of up to r rows needs.
func (s set) beginStore(r, vectors int, masked bool) {
	load(offFlags, flags)
	point(c, offCRow, r)
	masks := s.vectors[r*vectors+2:]
	if masked && !s.opmask {
		load(offMask, R13)
		for v := range vectors {
			VMOVUPS(Mem{Base: R13, Disp: 4 * s.lanes * v}, masks[v])
		}
	}
	if masked && s.opmask {
		for v := range vectors {
			KMOVW(Mem{Base: args, Disp: offMask + 2*v}, masks512[v])
		}
	}
}

// storeRows applies the epilogue to the rows from low up to high, of at most most, and writes
// them. A flag guards each step: the branches are the same for all blocks of a product, so they
// cost little. Without flags, one branch passes them all: products of few columns feel six.
func (s set) storeRows(label string, low, high, most, vectors int, masked bool) {
	acc := func(i, v int) VecPhysical { return s.vectors[i*vectors+v] }
	free, size := s.vectors[most*vectors:], 4*s.lanes
	x, y, masks := free[0], free[1], free[2:]
	get := func(m Mem, v int, to VecPhysical) {
		switch {
		case !masked:
			VMOVUPS(m, to)
		case s.opmask:
			VMOVUPS_Z(m, masks512[v], to)
		default:
			VMASKMOVPS(m, masks[v], to)
		}
	}
	each := func(f func(i, v int)) {
		for i := low; i < high; i++ {
			for v := range vectors {
				f(i, v)
			}
		}
	}
	when := func(flag int, name string, f func()) { whenSet(flags, flag, label+name, f) }
	at := func(i, v int) Mem {
		m := row(i)
		m.Disp = v * size
		return m
	}
	byteAt := func(i, v int) Mem {
		m := row(i)
		m.Disp = v * s.lanes
		return m
	}
	write := func() {
		each(func(i, v int) {
			switch {
			case !masked:
				VMOVUPS(acc(i, v), at(i, v))
			case s.opmask:
				VMOVUPS(acc(i, v), masks512[v], at(i, v))
			default:
				VMASKMOVPS(acc(i, v), masks[v], at(i, v))
			}
		})
	}
	TESTQ(flags, flags)
	JZ(LabelRef(label + "write"))
	if s.pairs || s.quads {
		when(flagBeta, "beta", func() {
			each(func(i, v int) {
				get(at(i, v), v, y)
				VPADDD(y, acc(i, v), acc(i, v))
			})
		})
		if s.quads { // the terms of the zero points
			when(flagRowBias, "rowbias", func() {
				each(func(i, v int) { VPADDD_BCST(Mem{Base: rowBias, Disp: 4 * i}, acc(i, v), acc(i, v)) })
			})
			when(flagColBias, "colbias", func() {
				load(offColBias, R13)
				for v := range vectors {
					get(Mem{Base: R13, Disp: v * size}, v, x)
					for i := low; i < high; i++ {
						VPADDD(x, acc(i, v), acc(i, v))
					}
				}
			})
			when(flagBytes, "sums", func() {
				if (high-low)*vectors%4 == 0 {
					s.packBytes(free, low, high, vectors, acc, row)
				} else {
					s.toBytes(x, y, masks[0], each, acc, byteAt)
				}
				JMP(LabelRef(label + "end"))
			})
		}
		Label(label + "write")
		write()
		Label(label + "end")
		return
	}
	when(flagAlpha, "alpha", func() {
		VBROADCASTSS(Mem{Base: args, Disp: offAlpha}, x)
		each(func(i, v int) { VMULPS(x, acc(i, v), acc(i, v)) })
	})
	when(flagBeta, "beta", func() {
		VBROADCASTSS(Mem{Base: args, Disp: offBeta}, x)
		each(func(i, v int) {
			get(at(i, v), v, y)
			VFMADD231PS(y, x, acc(i, v))
		})
	})
	when(flagRowBias, "rowbias", func() {
		for i := low; i < high; i++ {
			VBROADCASTSS(Mem{Base: rowBias, Disp: 4 * i}, x)
			for v := range vectors {
				VADDPS(x, acc(i, v), acc(i, v))
			}
		}
	})
	when(flagColBias, "colbias", func() {
		load(offColBias, R13)
		for v := range vectors {
			get(Mem{Base: R13, Disp: v * size}, v, x)
			for i := low; i < high; i++ {
				VADDPS(x, acc(i, v), acc(i, v))
			}
		}
	})
	when(flagLow, "low", func() { s.atLeast(offLow, x, y, each, acc) })
	when(flagHigh, "high", func() { s.atMost(offHigh, x, each, acc) })
	Label(label + "write")
	write()
}

// whenSet runs f if a flag is set. behind labels what follows.
func whenSet(flags GPPhysical, flag int, behind string, f func()) {
	TESTQ(U32(uint32(flag)), flags)
	JZ(LabelRef(behind))
	f()
	Label(behind)
}

// atLeast raises sums to the number at off, and atMost lowers them. NaN stays, because both
// instructions return their second source operand for NaN.
func (s set) atLeast(off int, x, y VecPhysical, each func(f func(i, v int)), acc func(i, v int) VecPhysical) {
	VBROADCASTSS(Mem{Base: args, Disp: off}, x)
	s.zero(y)
	each(func(i, v int) {
		VMAXPS(acc(i, v), x, acc(i, v))
		VADDPS(y, acc(i, v), acc(i, v)) // -0 becomes 0
	})
}

func (s set) atMost(off int, x VecPhysical, each func(f func(i, v int)), acc func(i, v int) VecPhysical) {
	VBROADCASTSS(Mem{Base: args, Disp: off}, x)
	each(func(i, v int) { VMINPS(acc(i, v), x, acc(i, v)) })
}

// toBytes writes the sums as bytes, with the arithmetic of requantize512. low, high and zero
// are free.
func (s set) toBytes(low, high, zero VecPhysical, each func(f func(i, v int)), acc func(i, v int) VecPhysical, at func(i, v int) Mem) {
	VBROADCASTSS(Mem{Base: args, Disp: offLow}, low)
	VBROADCASTSS(Mem{Base: args, Disp: offHigh}, high)
	VBROADCASTSS(Mem{Base: args, Disp: offZero}, zero)
	each(func(i, v int) {
		x := acc(i, v)
		VCVTDQ2PS(x, x)
		VMULPS_BCST(Mem{Base: rowBias, Disp: offScales + 4*i}, x, x)
		VMAXPS(low, x, x)
		VMINPS(high, x, x)
		VCVTPS2DQ(x, x)
		VPADDD(zero, x, x)
		VPMOVDB(x, masks512[v], at(i, v))
	})
}

// packBytes is toBytes for four vectors at a time, which the instructions that pack them keep in the
// range of the type: -∞, NaN and numbers below all integers are the least integer before.
func (s set) packBytes(free []VecPhysical, low, high, vectors int, acc func(i, v int) VecPhysical, at func(i int) Mem) {
	most, words, flip, order := free[0], free[1], free[2], free[3]
	VBROADCASTSS(Mem{Base: args, Disp: offHigh}, most)
	VPBROADCASTW(Mem{Base: args, Disp: offWords}, words)
	VPBROADCASTB(Mem{Base: args, Disp: offFlip}, flip)
	VMOVDQU64(packedOrder(), order)
	if vectors == 2 {
		KMOVD(Mem{Base: args, Disp: offMask}, K3)
	}
	each := 4 / vectors // rows
	for i := low; i < high; i += each {
		var v [4]VecPhysical
		for k := range v {
			v[k] = acc(i+k/vectors, k%vectors)
			VCVTDQ2PS(v[k], v[k])
			VMULPS_BCST(Mem{Base: rowBias, Disp: offScales + 4*(i+k/vectors)}, v[k], v[k])
			VMINPS(v[k], most, v[k]) // NaN stays
			VCVTPS2DQ(v[k], v[k])
		}
		packFour(v[:], words, order, flip)
		for k := range each {
			bytes := v[0]
			if k > 0 {
				bytes = v[1]
			}
			switch {
			case vectors == 2 && k > 0:
				VEXTRACTI64X4(Imm(1), v[0], bytes.AsY())
			case k > 0:
				VEXTRACTI32X4(Imm(uint64(k)), v[0], bytes.AsX())
			}
			if vectors == 2 {
				VMOVDQU8(bytes.AsY(), K3, at(i+k))
			} else {
				VMOVDQU8(bytes.AsX(), K1, at(i+k))
			}
		}
	}
}

// packFour makes the first of four vectors of 32-bit integers the bytes of all, to which it adds words
// and then applies flip. The instructions pack each 128 bits for themselves; order undoes that.
func packFour(v []VecPhysical, words, order, flip VecPhysical) {
	VPACKSSDW(v[1], v[0], v[0])
	VPADDSW(words, v[0], v[0])
	if v[2] != v[0] { // or all are one
		VPACKSSDW(v[3], v[2], v[2])
		VPADDSW(words, v[2], v[2])
	}
	VPACKUSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VPXORD(flip, v[0], v[0])
}

// packedOrder is where the numbers of 32 bits lie after packFour.
func packedOrder() Mem {
	return table("packedOrder", func() {
		for i := range 16 {
			DATA(4*i, U32(uint32(i%4*4+i/4)))
		}
	})
}

func (s set) zero(r VecPhysical) {
	if r.Size() == 64 {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

// masks512 lists the mask registers for the vectors of a row.
var masks512 = []OpmaskPhysical{K1, K2}
