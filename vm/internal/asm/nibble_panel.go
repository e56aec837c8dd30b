package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.nibblePanel. nibbles_amd64.go checks them at compile time.
const (
	offRowsOf     = 0
	offNumbers    = 8
	offBlocks     = 16 // scales of blocks
	offZeros      = 24
	offTile       = 32
	offRowScale   = 40
	offRowSums    = 48
	offBlockCount = 56 // blocks
	offChunks     = 64
	offHalves     = 72
	offStrip      = 80
	offLines      = 88
)

// The registers of nibblePanel.
var (
	strips   = []GPPhysical{RSI, R8, R9, R10} // numbers of each strip
	scaled   = R11                            // scales
	zeroed   = R12                            // zero points
	lines    = R13                            // bytes from the zero points of a strip to those of the next; scales take four times as many
	lines3   = R14
	fresh    = RAX // rows
	rowScale = RBX
	rowSums  = R15
	halves2  = RCX
	chunks   = RDX
)

// nibblePanel multiplies rows with columns whose numbers have 4 bits. A column has 8 numbers
// in each word of 32 bits, the first in its lowest bits, and a vector has a word of each of
// its columns. Rows are of float32, a number of each row for each depth, or, with whole, of
// signed bytes: those at even depths of a word, then those at odd ones, as a quad of each row.
//
// Each chunk of 16 or 32 depths is added up on its own, with whole exactly, and then times
// the block's scales to the sum of all chunks. So rows and vectors do not change bits.
func nibblePanel(s set, rows, vectors int, whole bool) {
	kind, what := "nibbles", "rows"
	if whole {
		kind, what = "nibbleBytes", "rows of bytes"
	}
	name := fmt.Sprintf("%s%sx%d", kind, s.name, rows)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s multiplies %d %s with %d columns.", name, rows, what, vectors*s.lanes))
	f := nibbleForm{set: s, rows: rows, count: vectors, size: 4 * s.lanes}
	free := f.set.vectors
	take := func(n int) (list []VecPhysical) { list, free = free[:n], free[n:]; return list }
	f.sums, f.total = take(rows*vectors), take(rows*vectors)
	f.zeros = take(vectors)
	f.mask = take(1)[0]
	f.temp = free

	Load(Param("p"), args)
	load(offRowsOf, fresh)
	load(offNumbers, strips[0])
	if f.opmask {
		load(offStrip, R13)
		for v := 1; v < vectors; v++ {
			LEAQ(Mem{Base: strips[v-1], Index: R13, Scale: 1}, strips[v])
		}
	}
	load(offBlocks, scaled)
	load(offZeros, zeroed)
	load(offRowScale, rowScale)
	load(offRowSums, rowSums)
	load(offLines, lines)
	LEAQ(Mem{Base: lines, Index: lines, Scale: 2}, lines3)
	for _, y := range f.total {
		f.clear(y)
	}
	if whole {
		f.broadcast(0x0f0f0f0f, f.mask)
		for _, z := range f.zeros {
			f.broadcast(8, z)
		}
	} else {
		f.lookUp()
		for _, z := range f.zeros {
			f.broadcast(0x41000000, z) // 8 as a float32
		}
	}
	Label("block")
	TESTQ(zeroed, zeroed)
	JZ(LabelRef("middle"))
	f.loadZeros(whole)
	ADDQ(Imm(16), zeroed)
	Label("middle")
	load(offChunks, chunks)
	Label("chunk")
	load(offHalves, halves2)
	for _, y := range f.sums {
		f.clear(y)
	}
	Label("half")
	for w := range 2 {
		for v := range vectors {
			if whole {
				f.bytes(w, v)
			} else {
				f.reals(w, v)
			}
		}
	}
	for v := range strips {
		if v == 0 || f.opmask && v < vectors {
			ADDQ(U32(128), strips[v])
		}
	}
	step := 64 * rows
	if whole {
		step = 16 * rows
	}
	ADDQ(U32(uint32(step)), fresh)
	DECQ(halves2)
	JNZ(LabelRef("half"))
	if whole {
		f.scaleBytes()
	} else {
		f.each(func(r, v int) { VFMADD231PS(f.place(scaled, v, 4, 32), f.sum(r, v), f.total[r*vectors+v]) })
	}
	DECQ(chunks)
	JNZ(LabelRef("chunk"))
	if whole {
		ADDQ(Imm(uint64(4*rows)), rowScale)
	}
	ADDQ(Imm(64), scaled)
	DECQ(Mem{Base: args, Disp: offBlockCount})
	JNZ(LabelRef("block"))
	load(offTile, RAX)
	for i, y := range f.total {
		VMOVUPS(y, Mem{Base: RAX, Disp: f.size * i})
	}
	VZEROUPPER()
	RET()
}

// nibbleForm is the shape of a nibblePanel.
type nibbleForm struct {
	set
	rows, count, size  int           // of vectors
	sums, total, zeros []VecPhysical // of a chunk and of all, row by row
	mask               VecPhysical   // or the table of numbers
	temp               []VecPhysical
}

func (f *nibbleForm) sum(r, v int) VecPhysical { return f.sums[r*f.count+v] }

func (f *nibbleForm) each(do func(r, v int)) {
	for r := range f.rows {
		for v := range f.count {
			do(r, v)
		}
	}
}

func (f *nibbleForm) clear(y VecPhysical) {
	if f.opmask {
		VPXORD(y, y, y)
		return
	}
	VPXOR(y, y, y)
}

func (f *nibbleForm) broadcast(word uint32, y VecPhysical) { VPBROADCASTD(placeOf(word), y) }

// lookUp sets what turns numbers into real ones: the table of all, or the mask of one.
func (f *nibbleForm) lookUp() {
	if !f.opmask {
		f.broadcast(15, f.mask)
		return
	}
	VMOVUPS(table("sixteenNumbers", func() {
		for i := range 16 {
			DATA(4*i, F32(float32(i)))
		}
	}), f.mask)
}

// place is where vector v finds the scales, or a quarter of that the zero points: in the
// next strip, or without AVX-512 in the next half of one.
func (f *nibbleForm) place(base GPPhysical, v, scale, half int) Mem {
	m := Mem{Base: base}
	switch {
	case v == 0:
	case !f.opmask:
		m.Disp = half * v
	case v == 3:
		m.Index, m.Scale = lines3, uint8(scale)
	default:
		m.Index, m.Scale = lines, uint8(v*scale)
	}
	return m
}

// word is the place of word w of vector v.
func (f *nibbleForm) word(w, v int) Mem {
	if f.opmask {
		return Mem{Base: strips[v], Disp: 64 * w}
	}
	return Mem{Base: strips[0], Disp: 64*w + 32*v}
}

// loadZeros loads the zero points of a block, as real numbers unless whole.
func (f *nibbleForm) loadZeros(whole bool) {
	for v, z := range f.zeros {
		VPMOVZXBD(f.place(zeroed, v, 1, 8), z)
		if !whole {
			VCVTDQ2PS(z, z)
		}
	}
}

// number writes number d of each word as a real one.
func (f *nibbleForm) number(word VecPhysical, d int, to VecPhysical) {
	from := word
	if d > 0 {
		VPSRLD(Imm(uint64(4*d)), word, to)
		from = to
	}
	if f.opmask {
		VPERMPS(f.mask, from, to) // reads the lowest 4 bits
		return
	}
	VPAND(f.mask, from, to)
	VCVTDQ2PS(to, to)
}

// reals adds up the products with the 8 numbers of word w.
func (f *nibbleForm) reals(w, v int) {
	word, number := f.temp[0], f.temp[1]
	VMOVUPS(f.word(w, v), word)
	for d := range 8 {
		f.number(word, d, number)
		VSUBPS(f.zeros[v], number, number)
		for r := range f.rows {
			at := Mem{Base: fresh, Disp: 4 * ((8*w+d)*f.rows + r)}
			if f.opmask {
				VFMADD231PS_BCST(at, number, f.sum(r, v))
				continue
			}
			VBROADCASTSS(at, f.temp[2])
			VFMADD231PS(f.temp[2], number, f.sum(r, v))
		}
	}
}

// bytes adds up the products with the 8 numbers of word w. Sums of 16 bits suffice without
// VNNI: 16 products of at most 15 by 127.
func (f *nibbleForm) bytes(w, v int) {
	low, high := f.temp[0], f.temp[1]
	and := func(x, y VecPhysical) {
		if f.opmask {
			VPANDD(f.mask, x, y)
			return
		}
		VPAND(f.mask, x, y)
	}
	VMOVUPS(f.word(w, v), high)
	and(high, low)
	VPSRLD(Imm(4), high, high)
	and(high, high)
	for i, numbers := range []VecPhysical{low, high} {
		for r := range f.rows {
			at := Mem{Base: fresh, Disp: 4 * ((2*w+i)*f.rows + r)}
			if f.opmask {
				VPDPBUSD_BCST(at, numbers, f.sum(r, v))
				continue
			}
			VPBROADCASTD(at, f.temp[2])
			VPMADDUBSW(f.temp[2], numbers, f.temp[2])
			VPADDW(f.temp[2], f.sum(r, v), f.sum(r, v))
		}
	}
}

// scaleBytes takes the zero points off the sums, and adds them times both scales to the
// total.
func (f *nibbleForm) scaleBytes() {
	row, product, scale := f.temp[0], f.temp[1], f.temp[2]
	if !f.opmask {
		f.broadcast(0x00010001, row)
		f.each(func(r, v int) { VPMADDWD(row, f.sum(r, v), f.sum(r, v)) })
	}
	for r := range f.rows {
		VPBROADCASTD(Mem{Base: rowSums, Disp: 4 * r}, row)
		VBROADCASTSS(Mem{Base: rowScale, Disp: 4 * r}, scale)
		for v := range f.count {
			sum := f.sum(r, v)
			VPMADDWD(row, f.zeros[v], product)
			VPSUBD(product, sum, sum)
			VCVTDQ2PS(sum, sum)
			VMULPS(f.place(scaled, v, 4, 32), scale, product)
			VFMADD231PS(product, sum, f.total[r*f.count+v])
		}
	}
	ADDQ(Imm(uint64(4*f.rows)), rowSums)
}
