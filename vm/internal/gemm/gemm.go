// Package gemm multiplies matrices of float32: C = A·B, with an epilogue (a bias, an
// activation), in blocks that stay in the cache. 16-bit operands are widened when they
// are packed. An operand is defined by how it is packed: a convolution is a product
// whose B is packed straight from the image (implicit im2col).
//
//	Operand      packs a strip of A or of B: Dense, Image, and for gradients Windows
//	             (few outputs for each of many images) and Turned (weights in reverse)
//	Packed       a prepacked operand: weights
//	Product      C = A·B with an epilogue, cut into tiles; small images are transposed
//	Depthwise    the convolution of single channels, in place by a table where it can;
//	             also its gradients
//	Pool         the largest element under a kernel, or their sum, with vectors
//	BlockSlide   both on images in NCHW16c, a pixel of a block to a vector
//	Integer      C = A·B of 8-bit integers, in 32 bits; Bytes and ByteImage are
//	             its operands
//	BytePixels   A of a convolution of int8 in NHWC; ColumnBytes is its requantizing
//	             epilogue, and DepthwisePixels has groups = channels
//	Blocks       the convolution of images in NCHW16c, which packs no pixels;
//	             BlockSlide has single channels, and pools
//	QuadRows     weights that VNNI multiplies as bytes, with sums or, requantized, bytes
//	             (ByteRows) as the result; QuadColumns on the right
//
// The blocking follows Goto & van de Geijn 2008. A strip of B stays in the first-level
// cache, and a tile of A in the second-level cache. A micro-kernel multiplies all strips
// of the tile with the strip of B, and keeps a block of C in registers. There are
// micro-kernels for AVX2 and for AVX-512 (package asm generates them), and one in Go for
// all other machines.
//
// The terms of each element of C are added in an order that depends only on K and on
// Image.Spread and Image.Together, with fused multiply-adds in both sets of assembly. Terms of a Spread image
// that are 0 because they lie outside of it may be left out. So the results are the same bits for any
// number of workers, for any cut into tiles, with operands prepacked or not, and
// for AVX2 and AVX-512. The micro-kernel in Go gives other bits, since it rounds the
// products.
package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// The sizes of the packed blocks.
const (
	mostDepth = 256
	tileRows  = 240 // a multiple of the rows of every micro-kernel
	widest    = 32  // columns of a micro-kernel
)

// ScratchBytes is the scratch of each worker for a tile that is written in place.
const ScratchBytes = 4 * mostDepth * (tileRows + widest)

// Operand is one side of a product.
type Operand interface {
	// Pack writes a strip for the micro-kernel: width rows of A (or columns of B),
	// beginning at first, at depths [k, k+n). It writes width numbers for each depth,
	// with zeros for rows beyond the end.
	Pack(dst []float32, width, first, k, n int)
}

// Stopper reports whether the results are no longer needed. Tile and Plane ask now and
// then, and return at once if so.
type Stopper interface{ Stopping() bool }

// Activation is applied to an element of C once it is complete.
type Activation int8

// The activations. They keep NaN, and turn -0 into 0.
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
	Beta      float32 // 0: the previous content of C is ignored
	Act       Activation
	Low, High float32
	// Across says that C is stored column by column, with Stride elements from one column
	// to the next. A must then be an Image, or a Dense with Step 1. See function Across.
	Across bool
	// Blocked says that C is stored in blocks of BlockLen rows (with Across, columns), of
	// which each has Stride columns (rows). M (N) is a multiple of HalfLen: a last block may have
	// half as many. Beta is 0.
	Blocked bool
	Stop    Stopper // nil: never

	share tileSize // of Divide
}

// Tiles is the number of parts into which the product is cut.
func (p *Product) Tiles() int {
	rows, columns := p.cut()
	return cuts(p.M, rows) * cuts(p.N, columns)
}

func cuts(n, size int) int { return (n + size - 1) / size }

// cut returns the size of a tile. It aims at 32 tiles, to balance the work. It keeps the
// tiles large enough that packing B (for each tile of rows) or A (for each tile of columns)
// costs at most a few per cent of the multiplication.
func (p *Product) cut() (rows, columns int) {
	if p.share.rows > 0 {
		return p.share.rows, p.share.columns
	}
	const (
		tiles     = 32
		leastWork = 1 << 19 // multiplications: about ten microseconds
	)
	leastRows, leastColumns := 96, 64
	if !p.readsA() {
		leastColumns = 256
	}
	switch a := p.A.(type) {
	case *Turned: // it is slow to pack
		leastColumns = 512
	case *Dense: // it is widened, from a slower cache
		if a.Format != Float32 {
			leastColumns = 512
		}
	}
	if p.readsB() {
		leastRows = 24
	}
	if p.Across {
		leastColumns = 128
	}
	unit := p.rowUnit()
	if p.tall() {
		columns = max(p.N, 1)
		return evenly(p.M, tallTile/columns/unit*unit, unit), columns
	}
	rows, columns = evenly(p.M, tileRows, unit), max(p.N, 1)
	work := max(p.M*p.N*p.K/tiles, leastWork)
	deep := max(p.K, 1)
	if p.Blocked && !p.Across { // the tile stays in the first-level cache until it is transposed
		work = min(work, blockedTile*deep)
	}
	// Even tiles: the workers have equal shares.
	columns = min(columns, evenly(p.N, max(leastColumns, cuts(work/deep/rows, widest)*widest), widest))
	if columns == max(p.N, 1) {
		rows = min(rows, evenly(p.M, min(tileRows, max(leastRows, work/deep/columns)), unit))
	}
	return rows, columns
}

// rowUnit is what the rows of a tile are a multiple of.
func (p *Product) rowUnit() int {
	if p.Blocked && !p.Across {
		return 48 // whole blocks
	}
	return 12
}

// readsB reports whether B is read where it lies, and not packed for each tile of rows.
func (p *Product) readsB() bool {
	b, packed := p.B.(*Packed)
	return packed && b.Format == Float32
}

// readsA reports whether A is read where it lies, and not packed for each tile of columns.
func (p *Product) readsA() bool {
	switch a := p.A.(type) {
	case *Packed:
		return a.Format == Float32
	case *Dense:
		return !p.Across && a.readable(p.N)
	}
	return false
}

// blockedTile is the most elements of a tile that is transposed into blocks.
const blockedTile = 1 << 13

// evenly cuts n into the fewest pieces of at most size. It returns the length of all
// pieces but the last, a multiple of unit.
func evenly(n, size, unit int) int {
	n = max(n, 1)
	return cuts(cuts(n, cuts(n, size)), unit) * unit
}

// depthOf returns the depth of a block: an even cut of k, in multiples of BlockLen.
func depthOf(k int) int { return min(evenly(k, mostDepth, BlockLen), mostDepth) }

// Block returns the rows [i, i+m) and columns [j, j+n) of C that a part computes.
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

// Tile computes one part. C and the bias lie at the given addresses; scratch has
// p.ScratchBytes() bytes.
func (p *Product) Tile(tile int, c, bias, scratch unsafe.Pointer) {
	i, j, _, _ := p.Block(tile)
	if p.Across {
		i, j = j, i
	}
	if p.Blocked {
		j *= min(BlockLen, p.channels()-i)
	}
	p.TileAt(tile, unsafe.Add(c, 4*(i*p.Stride+j)), p.Stride, bias, scratch)
}

// TileAt computes one part and writes it elsewhere: c is the address of its first
// element, and its rows (with Across, its columns) are stride elements apart.
func (p *Product) TileAt(tile int, c unsafe.Pointer, stride int, bias, scratch unsafe.Pointer) {
	if p.Across {
		p.tileAcross(tile, c, stride, bias, scratch)
		return
	}
	i, j, m, n := p.Block(tile)
	if !p.Blocked {
		p.block(i, j, m, n, c, stride, bias, scratch)
		return
	}
	sums := (*float32)(unsafe.Add(scratch, p.packingBytes()))
	p.block(i, j, m, n, unsafe.Pointer(sums), n, bias, scratch)
	for b := range cuts(m, BlockLen) {
		lanes := min(BlockLen, m-b*BlockLen)
		simd.Transpose((*float32)(p.blockOf(c, b, lanes, j, stride)), float(unsafe.Pointer(sums), 4*b*BlockLen*n), lanes, n, lanes, n)
	}
}

// channels is the number of rows or, with Across, columns of C.
func (p *Product) channels() int {
	if p.Across {
		return p.N
	}
	return p.M
}

// blockOf is where block b of a tile at c is written that begins at a pixel. A last half of a block
// has smaller pixels, so that the tile does not begin there as far behind the first pixel.
func (p *Product) blockOf(c unsafe.Pointer, b, lanes, pixel, stride int) unsafe.Pointer {
	at := pixelBytes * b * stride
	if b > 0 {
		at -= 4 * (BlockLen - lanes) * pixel
	}
	return unsafe.Add(c, at)
}

// Whole computes all of C, which must not be stored column by column, in one part.
func (p *Product) Whole(c, bias, scratch unsafe.Pointer) {
	for i := 0; i < p.M; i += tileRows {
		p.block(i, 0, min(tileRows, p.M-i), p.N, unsafe.Add(c, 4*i*p.Stride), p.Stride, bias, scratch)
	}
}

// block computes rows [i0, i0+m) and columns [j0, j0+n) of C, and writes them to c.
func (p *Product) block(i0, j0, m, n int, c unsafe.Pointer, stride int, bias, scratch unsafe.Pointer) {
	block := unsafe.Slice((*float32)(scratch), p.packingBytes()/4)
	if p.tall() {
		p.tallStrips(i0, j0, m, n, c, stride, bias, block)
		return
	}
	strip, side := block[:mostDepth*widest], block[mostDepth*widest:]
	if !p.evicts(stride, m) {
		p.strips(i0, j0, m, n, c, stride, bias, strip, side, p.partRoom(scratch))
		return
	}
	most := max(widest, min(asideLen, len(side))/m/widest*widest)
	for j := 0; j < n; j += most {
		columns := min(most, n-j)
		p.strips(i0, j0+j, m, columns, unsafe.Pointer(unsafe.SliceData(side)), columns, bias, strip, nil, p.partRoom(scratch))
		if p.Stop != nil && p.Stop.Stopping() {
			return
		}
		for r := range m {
			copy(unsafe.Slice(float(c, 4*(r*stride+j)), columns), side[r*columns:])
		}
	}
}

// asideLen is how many sums are added up aside at a time: they stay in the second-level
// cache.
const asideLen = 1 << 14

// evicts reports whether the rows of a block of C would evict each other from the cache
// from one block of depths to the next, because their distance is a multiple of a page.
// The sums are then added up in the part of the scratch that a packed A leaves free.
func (p *Product) evicts(stride, rows int) bool {
	a, packed := p.A.(*Packed)
	return packed && a.Format == Float32 && p.Beta == 0 && p.K > p.depth(0) && stride%evictStride == 0 && rows > 8
}

const evictStride = 1024 // numbers: a page

// strips is block without a way around the caches. It packs strips of B in strip, and of A
// in side, and widens parts of a 16-bit image in room.
func (p *Product) strips(i0, j0, m, n int, c unsafe.Pointer, stride int, bias unsafe.Pointer, strip, side, room []float32) {
	kernel := chosen
	height, width := levels[kernel].rows, levels[kernel].columns
	w := panel{rows: m, cRow: 4 * stride, alpha: p.Alpha, low: p.Low, high: p.High}
	b, _ := p.B.(*Packed)
	ahead := intel && kernel == avx512 && m >= leastAhead && b != nil
	image, part := p.narrowImage(), widePart{room: room}
	columns := n // at all depths, before the next ones
	wide := p.widenWhole(side, i0, m)
	if p.streams(m, wide.At != nil) {
		columns = width
	}
	for first := j0; first < j0+n; first += columns {
		last := min(first+columns, j0+n)
		for k := 0; k == 0 || k < p.K; k += max(w.depth, 1) { // without depths, once
			w.depth = p.depth(k)
			p.epilogue(&w, k == 0, k+w.depth == p.K)
			if part.to = 0; image != nil && p.Across && w.depth > 0 {
				part.fill(image, i0, i0+m, m, k, w.depth)
			}
			if wide.At != nil && w.depth > 0 {
				w.readRows(&wide, height, k)
			} else {
				p.left(&w, side, height, i0, m, k, &part)
			}
			for j := first; j < last; j += width {
				if p.Stop != nil && p.Stop.Stopping() {
					return
				}
				w.columns = min(width, last-j)
				from, to := p.seen(&w, j, k)
				if from == to {
					continue
				}
				if image == nil || p.Across || w.depth == 0 {
					p.right(&w, strip, width, j, k)
				} else {
					if j >= part.to {
						part.fill(image, j, last, width, k, w.depth)
					}
					part.Pack(strip[:width*w.depth], width, j, k-part.shift, w.depth)
					w.b, w.bDeep = unsafe.Pointer(unsafe.SliceData(strip)), 4*width
				}
				if ahead {
					w.next, w.passes = p.following(&w, first, last, j, k, width)
				}
				from = from / (width / 2) * (width / 2) // a whole vector
				w.b = unsafe.Add(w.b, 4*from)
				w.columns = to - from
				w.c = unsafe.Add(c, 4*(j-j0+from))
				// Do not compute an address beyond the bias: Go's garbage collector would
				// find an invalid pointer.
				if p.RowBias {
					w.rowBias = unsafe.Add(bias, 4*i0)
				}
				if p.ColBias {
					w.colBias = unsafe.Add(bias, 4*j)
				}
				p.multiply(&w, kernel, height)
			}
		}
	}
}

// following returns where the strip of B lies that is multiplied after the one at column j and depth
// k, of columns [first, last), and what it takes to prefetch it. After the last one that is the first
// strip of the next columns, which are those of the next tile if no rows are left.
func (p *Product) following(w *panel, first, last, j, k, width int) (next uintptr, passes int) {
	b := p.B.(*Packed)
	passes = nextPasses * b.Format.size() / 4
	switch {
	case j+width < last:
		return uintptr(b.strip(j+width, k, width)), passes
	case k+w.depth < p.K:
		return uintptr(b.strip(first, k+w.depth, width)), passes
	case last < p.N:
		return uintptr(b.strip(last, 0, width)), passes
	}
	return uintptr(w.b), 0
}

// leastAhead is how many rows it takes to prefetch most of a strip of B.
const leastAhead = 36

// widenWhole widens m rows of an A of 16 bits at all depths, if they run along the depth and fit
// beside a strip of B, and returns them; else nothing.
func (p *Product) widenWhole(side []float32, i, m int) (to Dense) {
	a, dense := p.A.(*Dense)
	if !dense || a.Format == Float32 || a.Deep != 1 || p.Across || p.K == 0 {
		return to
	}
	step := p.K
	if step%evictStride == 0 {
		step += BlockLen // so that rows do not evict each other
	}
	if m*step > len(side) {
		return to
	}
	to = Dense{At: unsafe.Pointer(unsafe.SliceData(side)), Len: m, Step: step, Deep: 1}
	for r := range m {
		a.widen(side[r*step:][:p.K], i+r, 0)
	}
	return to
}

// readRows sets A to rows of float32 that are read where they lie, from depth k on.
func (w *panel) readRows(a *Dense, height, k int) {
	w.a = unsafe.Add(a.At, 4*k*a.Deep)
	w.aStrip, w.aRow, w.aDeep = 4*height*a.Step, 4*a.Step, 4*a.Deep
}

// streams reports whether a block is to be computed strip by strip of B, over all depths,
// and not one block of depths after the other. So few rows leave the multipliers waiting for
// B, which is then read from its beginning to its end. wide says that A was widened at all depths.
func (p *Product) streams(rows int, wide bool) bool {
	if _, packed := p.B.(*Packed); !packed || p.Across || rows > mostStreaming {
		return false
	}
	if wide {
		return true
	}
	switch a := p.A.(type) {
	case *Packed:
		return a.Format == Float32
	case *Dense:
		return a.readable(p.N)
	}
	return false
}

const mostStreaming = 24 // rows

// depth returns the length of the block of depths that begins at k.
func (p *Product) depth(k int) int {
	if image, ok := p.B.(*Image); ok && image.Spread {
		return min(depthOf(image.Channels), image.Channels-k%image.Channels)
	}
	return min(depthOf(p.K), p.K-k)
}

// seen returns the columns of the strip at j that a block of depths can change. The
// blocks that begin and complete C change all.
func (p *Product) seen(w *panel, j, k int) (from, to int) {
	if image, ok := p.B.(*Image); ok && image.Spread && image.Out[0] == 1 && k > 0 && k+w.depth < p.K {
		return image.span(k, j, w.columns)
	}
	return 0, w.columns
}

// epilogue sets what the micro-kernel does with its sums. first and last say whether the
// block of depths is the first or the last.
func (p *Product) epilogue(w *panel, first, last bool) {
	w.flags, w.beta = 0, 1
	if p.Alpha != 1 {
		w.flags |= flagAlpha
	}
	if first {
		// Beta and both kinds of bias are added in the same place, so that they give the
		// same bits.
		w.beta = p.Beta
		if p.RowBias {
			w.flags |= flagRowBias
		}
		if p.ColBias {
			w.flags |= flagColBias
		}
	}
	if w.beta != 0 {
		w.flags |= flagBeta
	}
	if !last {
		return
	}
	switch p.Act {
	case Relu:
		w.flags |= flagLow
		w.low = 0
	case Clip:
		w.flags |= flagLow | flagHigh
	}
}

// left finds or packs rows [i, i+m) of A at depth k; part has those of a 16-bit image.
func (p *Product) left(w *panel, side []float32, height, i, m, k int, part *widePart) {
	if w.depth == 0 { // A has no elements
		w.a = unsafe.Pointer(unsafe.SliceData(side))
		return
	}
	if p.Across {
		p.leftAcross(w, side, height, i, m, k, part)
		return
	}
	if a, ok := p.A.(*Packed); ok && a.Format == Float32 {
		w.a = a.strip(i, k, height)
		w.aStrip, w.aRow, w.aDeep = 4*height*a.K, 4, 4*height // Alike has no K
		return
	}
	if a, ok := p.A.(*Dense); ok && a.readable(p.N) {
		rows := *a
		rows.At = unsafe.Add(a.At, 4*i*a.Step)
		w.readRows(&rows, height, k)
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
	if a, ok := p.A.(*Windows); ok {
		a.packRows(side, i, m, k, w.depth)
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
	if b, ok := p.B.(*Packed); ok && b.Format == Float32 {
		w.b, w.bDeep = b.strip(j, k, width), 4*width
		return
	}
	// A strip that is used only a few times is not worth packing. It must have all its
	// columns, since the micro-kernels read whole vectors.
	if b, ok := p.B.(*Dense); ok && b.Step == 1 && b.Format == Float32 && w.columns == width && w.rows <= 24 {
		w.b, w.bDeep = unsafe.Add(b.At, 4*(j+k*b.Deep)), 4*b.Deep
		return
	}
	p.B.Pack(strip[:width*w.depth], width, j, k, w.depth)
	w.b, w.bDeep = unsafe.Pointer(unsafe.SliceData(strip)), 4*width
}
