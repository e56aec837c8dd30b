package gemm

import "unsafe"

// Integer is C = A·B of 8-bit integers less their zero points, with 32-bit sums that wrap
// around. It is exact: two neighbours along the depth are widened to 16 bits and
// multiplied together, and the sum of their products fits into 32 bits. VNNI does that
// with one instruction for 16 columns, AVX2 with two instructions for 8. If weights were
// packed for it, VNNI multiplies four neighbours that are not widened.
type Integer struct {
	M, N, K int
	A       IntegerRows
	B       IntegerColumns
	Stop    Stopper // nil: never

	share tileSize // of Divide
}

// The block of C that the micro-kernels for integers compute. It has twice the rows with
// VNNI. The layout of packed rows of A does not depend on it.
const (
	integerRows    = 6
	integerColumns = 16
)

// IntegerScratchBytes is the scratch of each worker.
const IntegerScratchBytes = ScratchBytes + stageBytes

// stageBytes is the size of a strip of B before its bytes are widened.
const stageBytes = 4 * mostDepth * integerColumns

// IntegerRows is the left side of a product of integers.
type IntegerRows interface {
	// rows returns rows [first, first+n) at depths [k, k+deep), for even k: each row has
	// a pair of int16 for every two depths, and rows are step bytes apart. If deep is
	// odd, the last pair ends with 0. rows may write to side.
	rows(side []int16, first, n, k, deep int) (at unsafe.Pointer, step int)
}

// IntegerColumns is the right side.
type IntegerColumns interface {
	// columns returns columns [first, first+16) at depths [k, k+deep), for even k: 16
	// pairs of int16 for every two depths. It may write to strip and stage. Columns beyond
	// the last are undefined.
	columns(strip []int16, stage []byte, first, k, deep int) unsafe.Pointer
}

// like is a product of reals that is cut into the same tiles.
func (p *Integer) like() *Product {
	v := &Product{M: p.M, N: p.N, K: p.K, share: p.share}
	if left, _ := p.A.(*QuadRows); left != nil && p.share.rows == 0 {
		v.share = p.tallTile()
	}
	return v
}

// tallTile is a tile by weights that were packed for quads: as many rows as a tile can have, since
// each tile packs its columns of B.
func (p *Integer) tallTile() tileSize {
	const leastWork = 1 << 23 // multiplications: some forty microseconds
	rows := evenly(p.M, tileRows, integerTwice)
	least := cuts(leastWork, max(p.K, 1)*rows*widest) * widest
	return tileSize{rows, min(max(p.N, 1), evenly(p.N, max(64, least), widest))}
}

// integerTwice is the rows of the micro-kernels with VNNI.
const integerTwice = 2 * integerRows

// Divide is that of Product. VNNI multiplies four times as many numbers as are packed in the same
// time by other instructions, so that packing an operand again for each tile counts for more.
func (p *Integer) Divide(workers, products int) {
	packing := 8
	if p.hasQuads() {
		packing = 32
	}
	p.share = tileSize{}
	c := cutter{m: p.M, n: p.N, k: p.K, rowUnit: p.like().rowUnit(), columnUnit: integerColumns, strip: integerColumns}
	switch p.A.(type) {
	case *QuadRows, *PackedRows:
	default:
		c.left = packing
	}
	switch p.B.(type) {
	case *QuadColumns, *PackedColumns:
	default:
		c.right = packing
	}
	p.share = c.divide(tileOf(p.like().cut()), workers, products)
}

// hasQuads reports whether a side is packed for quads.
func (p *Integer) hasQuads() bool {
	_, left := p.A.(*QuadRows)
	_, right := p.B.(*QuadColumns)
	return left || right
}

// CutLike is that of Product.
func (p *Integer) CutLike(q *Integer) { p.share = q.share }

// Tiles is the number of parts into which the product is cut.
func (p *Integer) Tiles() int { return p.like().Tiles() }

// Block returns the rows [i, i+m) and columns [j, j+n) of C that a part computes.
func (p *Integer) Block(tile int) (i, j, m, n int) { return p.like().Block(tile) }

// BlockLen is the number of elements of the largest block.
func (p *Integer) BlockLen() int { return p.like().BlockLen() }

// Tile computes one part. c is the address of its first element, and its rows are stride
// elements apart; scratch has IntegerScratchBytes bytes.
func (p *Integer) Tile(tile int, c unsafe.Pointer, stride int, scratch unsafe.Pointer) {
	if p.quadTile(tile, c, stride, scratch) {
		return
	}
	i0, j0, m, n := p.Block(tile)
	const strips = 2 * mostDepth * integerColumns
	block := unsafe.Slice((*int16)(scratch), ScratchBytes/2)
	strip, side := block[:strips], block[strips:]
	stage := unsafe.Slice((*byte)(unsafe.Add(scratch, ScratchBytes)), stageBytes)

	w := panel{rows: m, cRow: 4 * stride, aDeep: 4, bDeep: 4 * integerColumns}
	step := 2 * depthOf(cuts(p.K, 2))
	for k := 0; k == 0 || k < p.K; k += step {
		deep := min(step, p.K-k)
		w.depth = cuts(deep, 2)
		if k > 0 {
			w.flags = flagBeta
		}
		w.a, w.aRow = p.A.rows(side, i0, m, k, deep)
		w.aStrip = pairsHeight() * w.aRow
		for j := 0; j < n; j += integerColumns {
			if p.Stop != nil && p.Stop.Stopping() {
				return
			}
			w.columns = min(integerColumns, n-j)
			w.b = p.B.columns(strip, stage, j0+j, k, deep)
			w.c = unsafe.Add(c, 4*j)
			w.runPairs()
		}
	}
}

// pairsPlain is the micro-kernel in Go.
func pairsPlain(p *panel) {
	for i := range p.rows {
		a := unsafe.Add(p.a, i/integerRows*p.aStrip+i%integerRows*p.aRow)
		var sums [integerColumns]int32
		for j := 0; j < p.columns; j += 4 {
			b := unsafe.Add(p.b, 4*j)
			var s0, s1, s2, s3 int32
			for k := range p.depth {
				x, y := *(*[2]int16)(unsafe.Add(a, k*p.aDeep)), (*[8]int16)(unsafe.Add(b, k*p.bDeep))
				first, second := int32(x[0]), int32(x[1])
				s0 += first*int32(y[0]) + second*int32(y[1])
				s1 += first*int32(y[2]) + second*int32(y[3])
				s2 += first*int32(y[4]) + second*int32(y[5])
				s3 += first*int32(y[6]) + second*int32(y[7])
			}
			sums[j], sums[j+1], sums[j+2], sums[j+3] = s0, s1, s2, s3
		}
		row := unsafe.Slice((*int32)(unsafe.Add(p.c, i*p.cRow)), p.columns)
		for j := range row {
			if p.flags&flagBeta != 0 {
				sums[j] += row[j]
			}
			row[j] = sums[j]
		}
	}
}

// PackedRows is a left side that was widened once: weights.
type PackedRows struct {
	At unsafe.Pointer
	K  int
}

// packedStep is the distance of two rows in bytes, chosen so that rows do not evict each
// other from the cache.
func packedStep(k int) int {
	step := 4 * cuts(k, 2)
	if step%1024 == 0 {
		step += 64
	}
	return step
}

// PackedRowsBytes is the size of m rows of depth k.
func PackedRowsBytes(m, k int) int { return m * packedStep(k) }

// PackRows widens m rows of depth k into PackedRowsBytes(m, k) bytes at dst. It returns
// early if run, which may be nil, is stopping.
func PackRows(dst unsafe.Pointer, a *Bytes, m, k int, run Packing) PackedRows {
	step := packedStep(k)
	a.pieces(m, k, 1, k).pack(run, func(i, _, _ int) {
		row := unsafe.Slice((*int16)(unsafe.Add(dst, i*step)), 2*cuts(k, 2))
		a.widen(row, i, 0, k)
	})
	return PackedRows{dst, k}
}

func (m *PackedRows) rows(_ []int16, first, _, k, _ int) (unsafe.Pointer, int) {
	step := packedStep(m.K)
	return unsafe.Add(m.At, first*step+2*k), step
}

// PackedColumns is a right side that was interleaved once: weights.
type PackedColumns struct {
	At unsafe.Pointer
	K  int
}

// PackedColumnsBytes is the size of n columns of depth k.
func PackedColumnsBytes(n, k int) int {
	return 4 * cuts(n, integerColumns) * integerColumns * cuts(k, 2)
}

// PackColumns interleaves n columns of depth k into PackedColumnsBytes(n, k) bytes at
// dst. It stops like PackRows.
func PackColumns(dst unsafe.Pointer, b *Bytes, n, k int, run Packing) PackedColumns {
	var stage [stageBytes]byte
	size := 2 * integerColumns * cuts(k, 2)
	b.pieces(n, k, integerColumns, 2*mostDepth).pack(run, func(j, first, depth int) {
		strip := unsafe.Slice((*int16)(unsafe.Add(dst, 2*j/integerColumns*size)), size)
		for from := first; from < first+depth; from += 2 * mostDepth {
			deep := min(2*mostDepth, first+depth-from)
			to := strip[integerColumns*from:][:2*integerColumns*cuts(deep, 2)]
			b.columns(to, stage[:], j, from, deep)
		}
	})
	return PackedColumns{dst, k}
}

func (m *PackedColumns) columns(_ []int16, _ []byte, first, k, _ int) unsafe.Pointer {
	return unsafe.Add(m.At, 4*first*cuts(m.K, 2)+2*integerColumns*k)
}
