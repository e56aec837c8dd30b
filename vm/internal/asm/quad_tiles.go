package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of gemm.quadTiles. quad_pixels_amd64.go checks them at compile time.
const (
	offTilesDst     = 0
	offTilesSrc     = 8
	offTilesStep    = 16
	offTilesDstStep = 24
	offTilesDeltas  = 32
	offTilesCount   = 40
	offTilesWeights = 48
	offTilesBiases  = 56
	offTilesScales  = 64
	offTilesTiles   = 72
	offTilesMask    = 80
	offTilesWords   = 88
	offTilesFlip    = 90
)

// quadTiles multiplies tiles of pixels by one or two vectors of 16 columns of weights: four bytes
// of each pixel, a quad, meet four weights of each column. The quads lie where deltas say, so a
// pixel's need not be neighbours. The sums are rounded to bytes in registers.
func quadTiles(rows, vectors int) {
	name := fmt.Sprintf("quadTiles%dx%dVNNI", rows, 16*vectors)
	TEXT(name, NOSPLIT|NOFRAME, "func(p *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes %d columns of tiles of %d pixels.", name, 16*vectors, rows))
	args, step, deltas, weights, count, delta, dst := RDI, R12, R13, RSI, RCX, RAX, RDX
	bases := []GPPhysical{R8, R9, R10, R11}[:(rows+2)/3]
	acc := func(i, v int) VecPhysical {
		return []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}[i*vectors+v]
	}
	numbers, pixels := []VecPhysical{Z24, Z25}[:vectors], []VecPhysical{Z26, Z27}
	words, flip, order := Z29, Z30, Z31
	Load(Param("p"), args)
	get := func(off int, r GPPhysical) { MOVQ(Mem{Base: args, Disp: off}, r) }
	get(offTilesStep, step)
	get(offTilesDeltas, deltas)
	get(offTilesDst, dst)
	KMOVD(Mem{Base: args, Disp: offTilesMask}, K1)
	VPBROADCASTW(Mem{Base: args, Disp: offTilesWords}, words)
	VPBROADCASTB(Mem{Base: args, Disp: offTilesFlip}, flip)
	VMOVDQU64(packedOrder(), order)

	Label("tile")
	get(offTilesSrc, bases[0])
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, delta)
	for i := range bases[1:] {
		LEAQ(Mem{Base: bases[i], Index: delta, Scale: 1}, bases[i+1])
	}
	get(offTilesWeights, weights)
	get(offTilesBiases, count)
	for i := range rows {
		for v := range vectors {
			VMOVDQU64(Mem{Base: count, Disp: 64 * v}, acc(i, v))
		}
	}
	get(offTilesCount, count)
	NEGQ(count)
	Label("quad")
	for v, x := range numbers {
		VMOVDQU64(Mem{Base: weights, Disp: 64 * v}, x)
	}
	ADDQ(Imm(uint64(64*vectors)), weights)
	for i := range rows {
		at := Mem{Base: bases[i/3]}
		if i%3 > 0 {
			at.Index, at.Scale = step, uint8(i%3)
		}
		x := pixels[i%2]
		VPBROADCASTD(at, x)
		for v, n := range numbers {
			VPDPBUSD(n, x, acc(i, v))
		}
	}
	MOVLQSX(Mem{Base: deltas, Index: count, Scale: 4}, delta)
	for _, b := range bases {
		ADDQ(delta, b)
	}
	INCQ(count)
	JNZ(LabelRef("quad"))

	get(offTilesScales, count)
	for v, x := range numbers {
		VMOVUPS(Mem{Base: count, Disp: 64 * v}, x)
	}
	get(offTilesDstStep, count)
	each := 4 / vectors // pixels whose bytes are packed together
	for first := 0; first < rows; first += each {
		var four [4]VecPhysical
		for k := range four {
			four[k] = acc(min(first+k/vectors, rows-1), k%vectors)
			if first+k/vectors < rows {
				VCVTDQ2PS(four[k], four[k])
				VMULPS(numbers[k%vectors], four[k], four[k])
				VCVTPS2DQ(four[k], four[k])
			}
		}
		if rows-first == 1 { // packed beside itself
			four[2], four[3] = four[0], four[1]
		}
		packFour(four[:], words, order, flip)
		for k := range min(each, rows-first) {
			bytes := four[0]
			switch {
			case k > 0 && vectors == 2:
				bytes = Z26
				VEXTRACTI64X4(Imm(1), four[0], bytes.AsY())
			case k > 0:
				bytes = Z26
				VEXTRACTI32X4(Imm(uint64(k)), four[0], bytes.AsX())
			}
			if vectors == 2 {
				VMOVDQU8(bytes.AsY(), K1, Mem{Base: dst})
			} else {
				VMOVDQU8(bytes.AsX(), K1, Mem{Base: dst})
			}
			ADDQ(count, dst)
		}
	}
	IMUL3Q(Imm(uint64(rows)), step, delta)
	ADDQ(delta, Mem{Base: args, Disp: offTilesSrc})
	DECQ(Mem{Base: args, Disp: offTilesTiles})
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}
