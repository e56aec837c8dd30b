package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// nibbleTile multiplies rows, a number of each for each depth, with a strip of two vectors of
// columns that were widened. It adds up each chunk on its own, like nibblePanel, and adds it
// times the chunk's scales to sums.
func nibbleTile(s set) {
	const unroll = 4
	size := 4 * s.lanes
	name := "nibbleTile" + s.name
	TEXT(name, NOSPLIT|NOFRAME, "func(rows, columns, scales, sums *float32, chunks, halves int)")
	Pragma("noescape")
	Doc(name + " adds the products of each chunk of 16 depths, times halves, to sums.")
	from, right, scales, sums := RSI, RDI, R8, R9
	Load(Param("rows"), from)
	Load(Param("columns"), right)
	Load(Param("scales"), scales)
	Load(Param("sums"), sums)
	Load(Param("chunks"), R10)
	Load(Param("halves"), R11)
	SHLQ(Imm(2), R11) // groups of four depths
	acc, free := s.vectors[:2*s.rows], s.vectors[2*s.rows:]
	Label("chunk")
	for _, y := range acc {
		s.zero(y)
	}
	MOVQ(R11, RCX)
	Label("depths")
	for d := range unroll {
		for v := range 2 {
			VMOVUPS(Mem{Base: right, Disp: (2*d + v) * size}, free[v])
		}
		for r := range s.rows {
			x := free[2+r%2]
			VBROADCASTSS(Mem{Base: from, Disp: 4 * (d*s.rows + r)}, x)
			for v := range 2 {
				VFMADD231PS(free[v], x, acc[2*r+v])
			}
		}
	}
	ADDQ(U32(uint32(unroll*2*size)), right)
	ADDQ(U32(uint32(unroll*4*s.rows)), from)
	DECQ(RCX)
	JNZ(LabelRef("depths"))
	for v := range 2 {
		VMOVUPS(Mem{Base: scales, Disp: v * size}, free[v])
	}
	for i, y := range acc {
		VFMADD213PS(Mem{Base: sums, Disp: i * size}, free[i%2], y)
		VMOVUPS(y, Mem{Base: sums, Disp: i * size})
	}
	ADDQ(U32(uint32(2*size)), scales)
	DECQ(R10)
	JNZ(LabelRef("chunk"))
	VZEROUPPER()
	RET()
}

// widenNibbles writes numbers less their zero points as real ones, for nibbleTile.
func widenNibbles(s set) {
	name := "widenNibbles" + s.name
	TEXT(name, NOSPLIT|NOFRAME, "func(dst *float32, numbers, zeros *byte, halves, step int)")
	Pragma("noescape")
	Doc(name + " widens 16 columns, for 16 depths, times halves. Those of one depth lie step bytes after those before.")
	f := nibbleForm{set: s, count: 16 / s.lanes, size: 4 * s.lanes}
	f.mask, f.zeros, f.temp = s.vectors[0], s.vectors[1:1+f.count], s.vectors[3:]
	Load(Param("dst"), RDI)
	Load(Param("numbers"), strips[0])
	Load(Param("zeros"), zeroed)
	Load(Param("halves"), RCX)
	Load(Param("step"), RDX)
	f.lookUp()
	f.loadZeros(false)
	SHLQ(Imm(1), RCX) // words
	Label("words")
	for v := range f.count {
		VMOVUPS(Mem{Base: strips[0], Disp: v * f.size}, f.temp[v])
	}
	for d := range 8 {
		for v := range f.count {
			number := f.temp[2+v]
			f.number(f.temp[v], d, number)
			VSUBPS(f.zeros[v], number, number)
			VMOVUPS(number, Mem{Base: RDI, Disp: v * f.size})
		}
		ADDQ(RDX, RDI)
	}
	ADDQ(Imm(64), strips[0])
	DECQ(RCX)
	JNZ(LabelRef("words"))
	VZEROUPPER()
	RET()
}
