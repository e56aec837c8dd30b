package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// With VNNI, bytes are multiplied as they are, four neighbours along the depth at a time:
// signed bytes a of A with unsigned bytes b of B, whose 16-bit products are added to a
// 32-bit sum without saturation. The zero points of such a product are single numbers x
// and y, and are applied to the sums:
//
//	Σ (a - x)(b - y) = Σ a·b - y·Σ a - x·(Σ b - K·y)
//
// Modulo 2³², both sides are the same number, so the result has the bits of the product of
// pairs. One side must be prepacked, since the sums over B take long otherwise.

// QuadRows is a left side that was packed for quads: weights. Its zero point is that of
// signed bytes, and B's columns need no sums only if it is 0.
type QuadRows struct {
	at   unsafe.Pointer
	k    int
	sums []int32
}

// quadStep is the distance of two rows in bytes, as packedStep.
func quadStep(k int) int {
	step := 4 * cuts(k, 4)
	if step%1024 == 0 {
		step += 64
	}
	return step
}

// QuadRowsBytes is the size of m rows of depth k.
func QuadRowsBytes(m, k int) int { return m * (quadStep(k) + 4) }

// CanQuadRows reports whether the zero points of A, which are constant, allow it to be
// packed for quads.
func CanQuadRows(a *Bytes) bool {
	if !Quads() {
		return false
	}
	for _, z := range a.Zeros {
		if z != a.unsign() {
			return false
		}
	}
	return true
}

// PackQuadRows packs m rows of depth k into QuadRowsBytes(m, k) bytes at dst. It stops
// like PackRows.
func PackQuadRows(dst unsafe.Pointer, a *Bytes, m, k int, run Packing) {
	p := QuadRowsAt(dst, m, k)
	a.pieces(m, k, 1, k).pack(run, func(i, _, _ int) {
		p.sums[i] = a.sign(unsafe.Slice((*byte)(unsafe.Add(dst, i*quadStep(k))), quadStep(k)), i, 0, k)
	})
}

// QuadRowsAt returns the rows that were packed at an address.
func QuadRowsAt(at unsafe.Pointer, m, k int) *QuadRows {
	return &QuadRows{at, k, unsafe.Slice((*int32)(unsafe.Add(at, m*quadStep(k))), m)}
}

func (*QuadRows) rows([]int16, int, int, int, int) (unsafe.Pointer, int) {
	panic("gemm: quads are not pairs")
}

// QuadColumns is a right side that was packed for quads: weights.
type QuadColumns struct {
	at   unsafe.Pointer
	k    int
	zero int32 // of the unsigned bytes
	sums []int32
}

// QuadColumnsBytes is the size of n columns of depth k.
func QuadColumnsBytes(n, k int) int {
	return 4 * integerColumns * cuts(n, integerColumns) * (cuts(k, 4) + 1)
}

// PackQuadColumns packs n columns of depth k into QuadColumnsBytes(n, k) bytes at dst. It
// stops like PackRows.
func PackQuadColumns(dst unsafe.Pointer, b *Bytes, n, k int, run Packing) {
	var stage [stageBytes]byte
	p := QuadColumnsAt(dst, b, n, k)
	clear(p.sums)
	size := 4 * integerColumns * cuts(k, 4)
	b.pieces(n, k, integerColumns, 4*mostDepth).pack(run, func(j, first, depth int) {
		strip := unsafe.Slice((*byte)(unsafe.Add(dst, j/integerColumns*size)), size)
		for from := first; from < first+depth; from += 4 * mostDepth {
			deep := min(4*mostDepth, first+depth-from)
			b.quads(strip[integerColumns*from:], stage[:], j, from, deep)
		}
		sums := (*[integerColumns]int32)(p.sums[j:])
		for q := integerColumns * first; q < min(size, integerColumns*(first+depth)); q += 4 * integerColumns {
			quad := (*[4 * integerColumns]byte)(strip[q:])
			for i := range sums {
				sums[i] += int32(quad[4*i]) + int32(quad[4*i+1]) + int32(quad[4*i+2]) + int32(quad[4*i+3])
			}
		}
	})
}

// QuadColumnsAt returns the columns of b that were packed at an address.
func QuadColumnsAt(at unsafe.Pointer, b *Bytes, n, k int) *QuadColumns {
	whole := cuts(n, integerColumns) * integerColumns
	sums := unsafe.Slice((*int32)(unsafe.Add(at, 4*whole*cuts(k, 4))), whole)
	return &QuadColumns{at, k, int32(b.zero(0)), sums}
}

func (*QuadColumns) columns([]int16, []byte, int, int, int) unsafe.Pointer {
	panic("gemm: quads are not pairs")
}

// signedRows is a left side that is not packed for quads.
type signedRows interface {
	sign(dst []byte, i, k, deep int) int32
	zero(i int) int16
}

// unsign is what signed bytes are less than the numbers.
func (m *Bytes) unsign() int16 { return 0x80 - int16(m.flip()) }

// sign writes one row of A at depths [k, k+deep) as signed bytes, and 0 up to the end of
// dst. It returns their sum.
func (m *Bytes) sign(dst []byte, i, k, deep int) int32 {
	flip, from, done, sum := byte(m.unsign()), m.at(i, k), 0, 0
	if m.Deep == 1 && deep >= 32 {
		done = deep &^ 31
		sum = flipRowAVX2(&dst[0], (*byte)(from), done, flip, 0x80) - 128*done
	}
	for d := done; d < deep; d++ {
		dst[d] = *(*byte)(unsafe.Add(from, d*m.Deep)) ^ flip
		sum += int(int8(dst[d]))
	}
	clear(dst[deep:])
	return int32(sum)
}

// quads writes 16 columns of B at depths [k, k+deep) as quads of unsigned bytes.
func (m *Bytes) quads(strip, stage []byte, first, k, deep int) unsafe.Pointer {
	whole := m.together(first, integerColumns, deep)
	if whole > 0 {
		quadRowsAVX2(&strip[0], (*byte)(m.at(first, k)), whole/4, m.Deep, m.flip())
	}
	m.lastQuads(strip, stage, first, k, whole, deep)
	return unsafe.Pointer(unsafe.SliceData(strip))
}

// twoQuads is quads of 17 to 32 columns that lie together: one strip and another.
func (m *Bytes) twoQuads(one, other, stage []byte, first, k, deep int) {
	// The rows are far from each other, so no prefetcher of the processor finds those that follow. Of
	// few rows, what follows are the next columns.
	const rowsAhead, lineAhead = 32, 64
	ahead := lineAhead
	if deep > 2*rowsAhead {
		ahead = rowsAhead * m.Deep
	}
	whole := m.together(first, 2*integerColumns, deep)
	if whole > 0 {
		quadTwoRowsAVX2(&one[0], &other[0], (*byte)(m.at(first, k)), whole/4, m.Deep, ahead, m.flip())
	}
	m.lastQuads(one, stage, first, k, whole, deep)
	m.lastQuads(other, stage, first+integerColumns, k, whole, deep)
}

// together is how many of deep rows can be read n columns at a time, a multiple of four: the columns
// lie together, and those behind the last, whose products nobody uses, are in the rows that follow.
func (m *Bytes) together(first, n, deep int) int {
	if m.Step != 1 {
		return 0
	}
	if over := first + n - m.Len; over > 0 {
		deep = max(0, deep-cuts(over, m.Deep))
	}
	return deep &^ 3
}

// lastQuads writes 16 columns of the rows that are not together.
func (m *Bytes) lastQuads(strip, stage []byte, first, k, whole, deep int) {
	if whole == deep {
		return
	}
	m.lay(stage, first, min(integerColumns, m.Len-first), k+whole, deep-whole)
	quad(strip[integerColumns*whole:], stage, deep-whole, m.flip())
}

func (m *ByteImage) quads(strip, stage []byte, first, k, deep int) unsafe.Pointer {
	m.lay(stage, first, k, deep)
	b := Bytes{Signed: m.Signed}
	quad(strip, stage, deep, b.flip())
	return unsafe.Pointer(unsafe.SliceData(strip))
}

// quad interleaves deep rows of 16 bytes to quads, the last of which is filled with 0.
func quad(strip, stage []byte, deep int, flip byte) {
	count := cuts(deep, 4)
	for i := integerColumns * deep; i < 4*integerColumns*count; i++ {
		stage[i] = flip
	}
	quadRowsAVX2(&strip[0], &stage[0], count, integerColumns, flip)
}

// ByteRows says how the rows of a part become bytes: each sum plus Biases of its row,
// modulo 2³², times Scales of its row, is rounded to even, and kept in the range of the type.
type ByteRows struct {
	Biases [tileRows]int32
	Scales [tileRows]float32
	To     simd.Byte
}

// Narrows reports whether ByteTile computes the parts of this product.
func (p *Integer) Narrows() bool {
	left, _ := p.A.(*QuadRows)
	return left != nil && p.K > 0 && p.K <= 4*depthOf(cuts(p.K, 4))
}

// ByteTile is Tile for bytes, which it rounds in registers: rows, for the rows of the part,
// is overwritten. The product must be one that Narrows.
func (p *Integer) ByteTile(tile int, c unsafe.Pointer, stride int, rows *ByteRows, scratch unsafe.Pointer) {
	p.quads(tile, c, stride, rows, scratch)
}

// quadTile computes one part as quads; it reports false if no side is packed for them.
func (p *Integer) quadTile(tile int, c unsafe.Pointer, stride int, scratch unsafe.Pointer) bool {
	return p.quads(tile, c, stride, nil, scratch)
}

// quads is quadTile, or ByteTile if to is not nil.
func (p *Integer) quads(tile int, c unsafe.Pointer, stride int, to *ByteRows, scratch unsafe.Pointer) bool {
	left, _ := p.A.(*QuadRows)
	right, _ := p.B.(*QuadColumns)
	if left == nil && right == nil {
		return false
	}
	i0, j0, m, n := p.Block(tile)
	strips, most := 4*mostDepth*integerColumns, integerColumns
	if twoQuads() {
		most *= 2
	}
	block := unsafe.Slice((*byte)(scratch), ScratchBytes)
	strip, side := block[:strips], block[strips:]
	if left != nil { // nothing is packed in side
		strip = block[:2*strips]
	}
	stage := unsafe.Slice((*byte)(unsafe.Add(scratch, ScratchBytes)), stageBytes)

	var (
		own     [tileRows]int32
		columns [2 * integerColumns]int32
		x, y    int32 // zero points
	)
	switch b := p.B.(type) {
	case *QuadColumns:
		y = b.zero
	case *Bytes:
		y = int32(b.zero(0))
	case *ByteImage:
		y = int32(b.Zero) + int32((&Bytes{Signed: b.Signed}).flip())
	}
	w := panel{rows: m, cRow: 4 * stride, aDeep: 4}
	rows, size := &own, 4
	if to != nil {
		rows, size = &to.Biases, 1
		w.cRow, w.zero, w.words = stride, to.To.Zero, int16(to.To.Zero)
		if w.low, w.high = to.To.Span(); to.To.Signed {
			w.words, w.flip = w.words+128, 0x80
		}
	}
	w.rowBias, w.colBias = unsafe.Pointer(rows), unsafe.Pointer(&columns)
	step := 4 * depthOf(cuts(p.K, 4))
	for k := 0; k == 0 || k < p.K; k += step {
		deep := min(step, p.K-k)
		w.depth, w.flags = cuts(deep, 4), 0
		if k > 0 {
			w.flags |= flagBeta
		}
		if left != nil {
			w.aRow = quadStep(left.k)
			w.a = unsafe.Add(left.at, i0*w.aRow+k)
			if to != nil {
				w.flags |= flagBytes
			}
			if k == 0 {
				w.flags |= flagRowBias
				for i := range m {
					bias := int32(0)
					if to != nil {
						bias = rows[i]
					}
					rows[i] = bias - y*left.sums[i0+i]
				}
			}
		} else {
			a := p.A.(signedRows)
			x = int32(a.zero(0)) - 0x80
			w.aRow = 4 * w.depth
			w.a = unsafe.Pointer(unsafe.SliceData(side))
			w.flags |= flagRowBias
			for i := range m {
				rows[i] = -y * a.sign(side[i*w.aRow:][:w.aRow], i0+i, k, deep)
			}
		}
		w.aStrip = pairsHeight() * w.aRow
		for j := 0; j < n; j += most {
			if p.Stop != nil && p.Stop.Stopping() {
				return true
			}
			w.columns = min(most, n-j)
			two := w.columns > integerColumns
			switch b := p.B.(type) {
			case *QuadColumns:
				w.b = b.strip(j0+j, k)
				w.next, w.passes = 0, 0
				if w.bDeep = b.step(); two && m >= leastAhead {
					w.next, w.passes = p.followingQuads(b, &w, j0, j0+j+most, j0+n, k)
				}
				if k == 0 && x != 0 {
					w.flags |= flagColBias
					for i, sum := range b.sums[j0+j:][:cuts(w.columns, integerColumns)*integerColumns] {
						columns[i] = -x * (sum - int32(p.K)*y)
					}
				}
			case quadPacker:
				w.b, w.bDeep = unsafe.Pointer(unsafe.SliceData(strip)), strips
				if flat, is := b.(*Bytes); is && two && flat.Step == 1 {
					flat.twoQuads(strip, strip[strips:], stage, j0+j, k, deep)
				} else {
					b.quads(strip, stage, j0+j, k, deep)
					if two {
						b.quads(strip[strips:], stage, j0+j+integerColumns, k, deep)
					}
				}
			}
			w.c = unsafe.Add(c, size*j)
			if two {
				w.runTwoQuads()
				continue
			}
			w.bDeep = 4 * integerColumns
			w.runQuads()
		}
	}
	return true
}

// quadPacker is a right side that is packed strip by strip.
type quadPacker interface {
	quads(strip, stage []byte, first, k, deep int) unsafe.Pointer
}

// step is the distance of two strips in bytes.
func (m *QuadColumns) step() int { return 4 * integerColumns * cuts(m.k, 4) }

// strip is where a strip lies from depth k on.
func (m *QuadColumns) strip(first, k int) unsafe.Pointer {
	return unsafe.Add(m.at, first/integerColumns*m.step()+integerColumns*k)
}

// followingQuads is following for two strips of quads, those before column j, of columns [first, last).
func (p *Integer) followingQuads(b *QuadColumns, w *panel, first, j, last, k int) (next uintptr, passes int) {
	switch {
	case j+integerColumns < last:
		return uintptr(b.strip(j, k)), nextPasses
	case k+4*w.depth < p.K:
		return uintptr(b.strip(first, k+4*w.depth)), nextPasses
	case last+integerColumns < p.N:
		return uintptr(b.strip(last, 0)), nextPasses
	}
	return uintptr(w.b), 0
}
