// Package gemm multiplies matrices of float32 (operands of 16 bits are widened as
// they are packed): C = A·B, and what follows right
// after (a bias, an activation), in blocks that stay in the cache. What is
// multiplied is told by how it is packed, so a convolution is a product whose B
// is packed straight from the image (implicit im2col).
//
//	Operand      packs a strip of A or of B: Dense, Image
//	Packed       an operand that was packed whole, once: weights
//	Product      C = A·B with an epilogue, cut into tiles; small images go across
//	Depthwise    the convolution of each channel by itself
//	Integer      C = A·B of 8-bit integers, in 32 bits; Bytes and ByteImage are
//	             its operands
//
// The blocks are those of Goto & van de Geijn 2008: a strip of B, depth numbers
// deep, stays in the first-level cache while all strips of a tile of A, which
// stays in the second-level cache, are multiplied with it by a micro-kernel that
// keeps a block of C in registers. Micro-kernels are written for AVX2 and for
// AVX-512 (package asm generates them), and in Go for all other machines.
//
// The terms of one element of C are added in an order that depends on K alone,
// with fused multiply-adds in both sets of assembly: so results are the same
// bits for any number of workers, wherever tiles are cut, whether operands were
// packed before or not, and for AVX2 and AVX-512. Those of the micro-kernel in
// Go differ, since it rounds products.
package gemm

import "unsafe"

// The blocks that are packed.
const (
	mostDepth = 256
	tileRows  = 240 // a multiple of the rows of every micro-kernel
	widest    = 32  // columns of a micro-kernel
)

// ScratchBytes is what each worker needs for a tile that goes to its place.
const ScratchBytes = 4 * mostDepth * (tileRows + widest)

// Operand is one side of a product.
type Operand interface {
	// Pack writes a strip for the micro-kernel: width rows of A (or columns of
	// B) from first on, at depths [k, k+n), depth by depth, width numbers
	// each; rows beyond the end are zeros.
	Pack(dst []float32, width, first, k, n int)
}

// Stopper tells that results are not wanted any more. Tile and Plane look now and
// then, and return at once.
type Stopper interface{ Stopping() bool }

// Activation is applied to an element of C once it is complete.
type Activation int8

// The activations. They keep NaN; what is -0 becomes 0.
const (
	None Activation = iota
	Relu
	Clip // to [Low, High]
)

// Product is C = Alpha·A·B + Beta·C + bias, C row by row.
type Product struct {
	M, N, K   int
	A, B      Operand
	Alpha     float32
	Stride    int // of the rows of C, in elements
	RowBias   bool
	ColBias   bool
	Beta      float32 // 0: what is in C before does not count
	Act       Activation
	Low, High float32
	// Across: C is written column by column, Stride elements from one to the
	// next. A is an image (or a Dense one, Step 1), see Across.
	Across bool
	Stop   Stopper // nil: never
}

// Tiles is how many parts the product is cut into.
func (p *Product) Tiles() int {
	rows, columns := p.cut()
	return cuts(p.M, rows) * cuts(p.N, columns)
}

func cuts(n, size int) int { return (n + size - 1) / size }

// cut gives the size of a tile. It aims at 32 tiles, so that work spreads evenly,
// but not at tiles so small that packing B (for each tile of rows) or A (for each
// tile of columns) costs more than a few per cent of multiplying.
func (p *Product) cut() (rows, columns int) {
	const (
		tiles     = 32
		leastWork = 1 << 19 // products: some ten microseconds
		leastRows = 96
	)
	leastColumns := 64
	if _, packed := p.A.(*Packed); !packed {
		leastColumns = 256
	}
	if p.Across {
		leastColumns = 128
	}
	rows, columns = evenly(p.M, tileRows, 12), max(p.N, 1)
	work := max(p.M*p.N*p.K/tiles, leastWork)
	deep := max(p.K, 1)
	columns = min(columns, max(leastColumns, cuts(work/deep/rows, widest)*widest))
	if columns == max(p.N, 1) {
		rows = min(rows, evenly(p.M, min(tileRows, max(leastRows, work/deep/columns)), 12))
	}
	return rows, columns
}

// evenly cuts n into the fewest pieces of at most size, all of one length but
// the last: a multiple of unit.
func evenly(n, size, unit int) int {
	n = max(n, 1)
	return cuts(cuts(n, cuts(n, size)), unit) * unit
}

// depthOf cuts the depth evenly, in multiples of 8.
func depthOf(k int) int { return min(evenly(k, mostDepth, 8), mostDepth) }

// Block tells which rows [i, i+m) and columns [j, j+n) of C a part makes.
func (p *Product) Block(tile int) (i, j, m, n int) {
	rows, columns := p.cut()
	down := cuts(p.M, rows)
	i, j = tile%down*rows, tile/down*columns
	return i, j, min(rows, p.M-i), min(columns, p.N-j)
}

// BlockLen is the number of elements of the largest block.
func (p *Product) BlockLen() int {
	rows, columns := p.cut()
	return min(rows, p.M) * min(columns, p.N)
}

// Tile computes one part: C and the bias lie at the given addresses, scratch has
// p.ScratchBytes() bytes.
func (p *Product) Tile(tile int, c, bias, scratch unsafe.Pointer) {
	if p.Across {
		p.tileAcross(tile, c, bias, scratch)
		return
	}
	i, j, _, _ := p.Block(tile)
	p.TileAt(tile, unsafe.Add(c, 4*(i*p.Stride+j)), p.Stride, bias, scratch)
}

// TileAt computes one part to another place: c is where its first element goes,
// whose rows stand stride elements apart.
func (p *Product) TileAt(tile int, c unsafe.Pointer, stride int, bias, scratch unsafe.Pointer) {
	kernel := chosen
	height, width := levels[kernel].rows, levels[kernel].columns
	i0, j0, m, n := p.Block(tile)
	block := unsafe.Slice((*float32)(scratch), ScratchBytes/4)
	strip, side := block[:mostDepth*widest], block[mostDepth*widest:]

	w := panel{rows: m, cRow: 4 * stride, alpha: p.Alpha, low: p.Low, high: p.High}
	step := depthOf(p.K)
	for k := 0; k == 0 || k < p.K; k += step {
		w.depth = min(step, p.K-k)
		p.epilogue(&w, k == 0, k+w.depth == p.K)
		p.left(&w, side, height, i0, m, k)
		for j := j0; j < j0+n; j += width {
			if p.Stop != nil && p.Stop.Stopping() {
				return
			}
			w.columns = min(width, j0+n-j)
			p.right(&w, strip, width, j, k)
			w.c = unsafe.Add(c, 4*(j-j0))
			// An address beyond the bias must not be made: Go's collector would
			// come upon it.
			if p.RowBias {
				w.rowBias = unsafe.Add(bias, 4*i0)
			}
			if p.ColBias {
				w.colBias = unsafe.Add(bias, 4*j)
			}
			w.run(kernel)
		}
	}
}

// epilogue says what the micro-kernel does with its sums: first and last are
// the ends of the depth.
func (p *Product) epilogue(w *panel, first, last bool) {
	w.flags, w.beta = 0, 1
	if p.Alpha != 1 {
		w.flags |= flagAlpha
	}
	if first {
		w.beta = p.Beta
	}
	if w.beta != 0 {
		w.flags |= flagBeta
	}
	if !last {
		return
	}
	if p.RowBias {
		w.flags |= flagRowBias
	}
	if p.ColBias {
		w.flags |= flagColBias
	}
	switch p.Act {
	case Relu:
		w.flags |= flagLow
		w.low = 0
	case Clip:
		w.flags |= flagLow | flagHigh
	}
}

// left finds or packs rows [i, i+m) of A at depth k.
func (p *Product) left(w *panel, side []float32, height, i, m, k int) {
	if w.depth == 0 { // there is no element to point to
		w.a = unsafe.Pointer(unsafe.SliceData(side))
		return
	}
	if p.Across {
		p.leftAcross(w, side, height, i, m, k)
		return
	}
	if a, ok := p.A.(*Packed); ok {
		w.a = unsafe.Add(a.At, 4*(i*a.K+k*height))
		w.aStrip, w.aRow, w.aDeep = 4*height*a.K, 4, 4*height
		return
	}
	if a, ok := p.A.(*Dense); ok && a.readable(p.N) {
		w.a = unsafe.Add(a.At, 4*(i*a.Step+k*a.Deep))
		w.aStrip, w.aRow, w.aDeep = 4*height*a.Step, 4*a.Step, 4*a.Deep
		return
	}
	if a, ok := p.A.(*Dense); ok && a.Format != Float32 && a.Deep == 1 {
		for r := range m {
			a.widen(side[r*w.depth:(r+1)*w.depth], i+r, k)
		}
		w.a = unsafe.Pointer(unsafe.SliceData(side))
		w.aStrip, w.aRow, w.aDeep = 4*height*w.depth, 4*w.depth, 4
		return
	}
	size := height * w.depth
	for s := range cuts(m, height) {
		p.A.Pack(side[s*size:(s+1)*size], height, i+s*height, k, w.depth)
	}
	w.a = unsafe.Pointer(unsafe.SliceData(side))
	w.aStrip, w.aRow, w.aDeep = 4*size, 4, 4*height
}

// right finds or packs columns [j, j+width) of B at depth k.
func (p *Product) right(w *panel, strip []float32, width, j, k int) {
	if w.depth == 0 {
		w.b = unsafe.Pointer(unsafe.SliceData(strip))
		return
	}
	if b, ok := p.B.(*Packed); ok {
		w.b, w.bDeep = unsafe.Add(b.At, 4*(j*b.K+k*width)), 4*width
		return
	}
	// A strip that is used a few times only is not worth packing. The
	// micro-kernels read whole vectors.
	if b, ok := p.B.(*Dense); ok && b.Step == 1 && b.Format == Float32 && w.columns == width && w.rows <= 12 {
		w.b, w.bDeep = unsafe.Add(b.At, 4*(j+k*b.Deep)), 4*b.Deep
		return
	}
	p.B.Pack(strip[:width*w.depth], width, j, k, w.depth)
	w.b, w.bDeep = unsafe.Pointer(unsafe.SliceData(strip)), 4*width
}
