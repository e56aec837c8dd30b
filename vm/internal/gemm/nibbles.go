package gemm

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Nibbles is a product of M rows of K float32 with N columns of K numbers of 4 bits. The
// numbers of a column lie in blocks of 16·2ⁿ depths, each with a scale and a zero point:
//
//	C[i, j] = Σ A[i, k]·(number[j, k] - zero[j, k/Block])·scale[j, k/Block]
//
// Rows are laid out first, in groups of up to 12, which one micro-kernel multiplies. With
// Whole they are rounded to 8 bits, each block by a scale of its own, and products are exact;
// such a row differs by up to 1/254 of the largest number of its block. Every chunk of up to
// 32 depths is added up by itself. The bits of a row depend neither on the other rows nor on
// the cut into parts, and are those of AVX2 with AVX-512.
type Nibbles struct {
	M, N, K, Block int
	Whole          bool
}

const (
	nibbleStrip   = 16 // columns
	nibbleColumns = 64 // of a part: four strips
	nibbleChunk   = 32 // depths
	nibbleWord    = 8  // numbers in 32 bits
)

func (p *Nibbles) blocks() int { return cuts(p.K, p.Block) }

// deep is K, with the last block whole.
func (p *Nibbles) deep() int { return p.blocks() * p.Block }

// chunks is the number of chunks of a block.
func (p *Nibbles) chunks() int { return cuts(p.Block, nibbleChunk) }

// width is the number of columns that are packed.
func (p *Nibbles) width() int { return p.Parts() * nibbleColumns }

// Parts is the number of parts, each of up to 64 columns.
func (p *Nibbles) Parts() int { return cuts(p.N, nibbleColumns) }

// Columns returns the columns [j, j+n) of a part.
func (p *Nibbles) Columns(part int) (j, n int) {
	j = part * nibbleColumns
	return j, min(nibbleColumns, p.N-j)
}

// Of returns the product with the columns of a part alone, for columns that are packed part
// by part.
func (p *Nibbles) Of(part int) Nibbles {
	one := *p
	_, one.N = p.Columns(part)
	return one
}

// NumbersBytes, ScalesBytes and ZerosBytes are the sizes of packed columns.
func (p *Nibbles) NumbersBytes() int { return p.width() * p.deep() / 2 }

// ScalesBytes is like NumbersBytes.
func (p *Nibbles) ScalesBytes() int { return 4 * p.width() * p.blocks() }

// ZerosBytes is like NumbersBytes.
func (p *Nibbles) ZerosBytes() int { return p.width() * p.blocks() }

// PackNumbers packs N columns, each of whole blocks with two numbers in a byte, the first in
// its low half: words of 16 columns lie side by side.
func (p *Nibbles) PackNumbers(dst unsafe.Pointer, src []byte, run Packing) {
	words := p.deep() / nibbleWord
	to := unsafe.Slice((*uint32)(dst), p.width()*words)
	order := pieces{at: unsafe.Pointer(unsafe.SliceData(src)), row: 4 * words, n: p.width(), k: words, width: nibbleStrip, byRows: true}
	order.pack(run, func(strip, _, _ int) {
		for j := strip; j < strip+nibbleStrip; j++ {
			first := j/nibbleStrip*nibbleStrip*words + j%nibbleStrip
			for w := range words {
				number := uint32(0)
				if j < p.N {
					number = binary.LittleEndian.Uint32(src[4*(j*words+w):])
				}
				to[first+w*nibbleStrip] = number
			}
		}
	})
}

// PackScales packs the scales of N columns.
func (p *Nibbles) PackScales(dst unsafe.Pointer, src []float32) {
	lay(unsafe.Slice((*float32)(dst), p.width()*p.blocks()), p.N, p.blocks(), func(j, i int) float32 { return src[j*p.blocks()+i] })
}

// PackZeros packs the zero points of N columns, of which two lie in a byte.
func (p *Nibbles) PackZeros(dst unsafe.Pointer, src []byte) {
	lay(unsafe.Slice((*byte)(dst), p.width()*p.blocks()), p.N, p.blocks(), func(j, i int) byte {
		return src[j*cuts(p.blocks(), 2)+i/2] >> (4 * (i % 2)) & 15
	})
}

// lay writes a value of each block of n columns, those of 16 columns side by side.
func lay[T any](dst []T, n, blocks int, value func(j, i int) T) {
	clear(dst)
	for j := range n {
		for i := range blocks {
			dst[(j/nibbleStrip*blocks+i)*nibbleStrip+j%nibbleStrip] = value(j, i)
		}
	}
}

// RowsBytes is the size of all rows that are laid out.
func (p *Nibbles) RowsBytes() int {
	if !p.Whole {
		groups, height := p.tall()
		return 4 * max(p.M, groups*height) * p.deep()
	}
	return p.M * (p.deep() + 4*p.blocks()*(1+p.chunks()))
}

// Groups is the number of groups of rows.
func (p *Nibbles) Groups() int {
	tall, height := p.tall()
	most, m := nibbleRows(p.Whole), max(p.M-tall*height, 0)
	return tall + m/most + bits.OnesCount(uint(rest(m, most)))
}

// rest are the rows that are left of m in whole groups, as a set of sizes: without AVX-512,
// each of them is a group.
func rest(m, most int) int {
	if most == mostNibbleRows {
		return m % most
	}
	return 1<<(m%most) - 1
}

// mostNibbleRows is the size of the largest group of columns that are not widened, which
// AVX-512 has registers for.
const mostNibbleRows = 8

// group returns the rows [first, first+n) of a group that is not tall.
func (p *Nibbles) group(g int) (first, n int) {
	tall, height := p.tall()
	most := nibbleRows(p.Whole)
	first, g = tall*height, g-tall
	m := p.M - first
	if g < m/most {
		return first + g*most, most
	}
	first, g = first+m/most*most, g-m/most
	if most < mostNibbleRows {
		return first + g, 1
	}
	for n = most / 2; ; n /= 2 {
		if m%most&n == 0 {
			continue
		}
		if g == 0 {
			return first, n
		}
		first, g = first+n, g-1
	}
}

// Lay lays out the rows of a group, for all parts. a has rows of K numbers; rows has
// RowsBytes bytes.
func (p *Nibbles) Lay(g int, a []float32, rows unsafe.Pointer) {
	if tall, height := p.tall(); g < tall {
		p.layTall(g, height, a, rows)
		return
	}
	first, n := p.group(g)
	for r := range n {
		row := a[(first+r)*p.K:][:p.K]
		if p.Whole {
			p.round(row, rows, first, n, r)
			continue
		}
		to := unsafe.Slice((*float32)(unsafe.Add(rows, 4*first*p.deep())), n*p.deep())
		if n == 1 {
			clear(to[copy(to, row):])
			continue
		}
		for k, x := range row {
			to[k*n+r] = x
		}
		for k := p.K; k < p.deep(); k++ {
			to[k*n+r] = 0
		}
	}
}

// bytes are rows that are rounded: scales and sums of chunks lie behind the bytes.
func (p *Nibbles) bytes(rows unsafe.Pointer, first, n int) (quads []uint32, scales []float32, sums []int32) {
	blocks, chunks := p.blocks(), p.blocks()*p.chunks()
	quads = unsafe.Slice((*uint32)(unsafe.Add(rows, first*p.deep())), n*p.deep()/4)
	scales = unsafe.Slice((*float32)(unsafe.Add(rows, p.M*p.deep()+4*first*blocks)), n*blocks)
	sums = unsafe.Slice((*int32)(unsafe.Add(rows, p.M*(p.deep()+4*blocks)+4*first*chunks)), n*chunks)
	return quads, scales, sums
}

// round rounds row r of a group of n to bytes, whose scale is 1/127 of the largest number of
// a block.
func (p *Nibbles) round(row []float32, rows unsafe.Pointer, first, n, r int) {
	const (
		odd   = 0x00ff00ff00ff00ff
		flips = 0x8080808080808080
	)
	quads, scales, sums := p.bytes(rows, first, n)
	var list [nibbleChunk]byte
	deep := min(p.Block, nibbleChunk)
	for i := range p.blocks() {
		x := row[i*p.Block : min((i+1)*p.Block, p.K)]
		scale := max(simd.Highest(x), -simd.Lowest(x)) / 127 // NaN if x has one
		scales[i*n+r] = scale
		if scale == 0 {
			scale = 1
		}
		for k := 0; k < p.Block; k += deep {
			// A number is larger by 128 in list; those behind the row are 0.
			part := x[min(k, len(x)):min(k+deep, len(x))]
			simd.Quantize(list[:len(part)], part, scale, simd.Byte{Zero: 128})
			for b := len(part); b < deep; b++ {
				list[b] = 128
			}
			var sum uint64 // four of 16 bits
			at := (i*p.Block + k) / 4
			for b := 0; b < deep; b += nibbleWord {
				w := binary.LittleEndian.Uint64(list[b:])
				sum += w&odd + w>>8&odd
				w ^= flips
				quads[(at+b/4)*n+r] = everyOtherOf(w)
				quads[(at+b/4+1)*n+r] = everyOtherOf(w >> 8)
			}
			sums[(i*p.Block+k)/deep*n+r] = int32(sum*0x0001000100010001>>48) - 128*int32(deep)
		}
	}
}

// everyOtherOf returns the bytes 0, 2, 4 and 6.
func everyOtherOf(w uint64) uint32 {
	w &= 0x00ff00ff00ff00ff
	w = (w | w>>8) & 0x0000ffff0000ffff
	return uint32(w | w>>16)
}

// PackedNibbles are packed columns; Zeros may be nil: 8.
type PackedNibbles struct{ Numbers, Scales, Zeros unsafe.Pointer }

// part returns the columns of a part.
func (b *PackedNibbles) part(p *Nibbles, part int) PackedNibbles {
	j := part * nibbleColumns
	one := PackedNibbles{unsafe.Add(b.Numbers, j*p.deep()/2), unsafe.Add(b.Scales, 4*j*p.blocks()), b.Zeros}
	if b.Zeros != nil {
		one.Zeros = unsafe.Add(b.Zeros, j*p.blocks())
	}
	return one
}

// nibblePanel holds the arguments of a micro-kernel. Package asm addresses the fields by
// their offsets.
type nibblePanel struct {
	rows            unsafe.Pointer
	numbers         unsafe.Pointer // of one strip or more
	scales, zeros   unsafe.Pointer
	tile            unsafe.Pointer // of the result, row by row
	rowScales, sums unsafe.Pointer // of rows of bytes: a scale for each block, a sum for each chunk
	blocks          int            // the micro-kernel counts it down
	chunks          int            // of a block
	halves          int            // of a chunk: 16 depths each
	strip           int            // bytes from the numbers of one strip to the next
	lines           int            // and from its zero points to the next
}

// Part computes a part of C, whose rows are stride elements apart. rows were laid out by Lay,
// and b are all packed columns. bias, which may be nil, has a number for each column. scratch
// has ScratchBytes bytes. It returns early if stop is stopping.
func (p *Nibbles) Part(part int, b PackedNibbles, rows, c unsafe.Pointer, stride int, bias []float32, scratch unsafe.Pointer, stop Stopper) {
	one := b.part(p, part)
	tall, _ := p.tall()
	if tall > 0 {
		p.tallPart(part, &one, rows, c, stride, bias, (*nibbleScratch)(scratch), stop)
	}
	j, n := p.Columns(part)
	var tile [mostNibbleRows * nibbleColumns]float32
	for g := tall; g < p.Groups(); g++ {
		if stop != nil && stop.Stopping() {
			return
		}
		first, m := p.group(g)
		p.multiply(first, m, cuts(n, nibbleStrip), &one, rows, &tile)
		for r := range m {
			to := unsafe.Slice((*float32)(unsafe.Add(c, 4*((first+r)*stride+j))), n)
			copy(to, tile[r*nibbleColumns:])
			if bias != nil {
				simd.Add(to, to, bias[j:j+n])
			}
		}
	}
}

// multiply computes the rows of a group and the columns of some strips into tile, whose rows
// are 64 numbers apart.
func (p *Nibbles) multiply(first, m, strips int, b *PackedNibbles, rows unsafe.Pointer, tile *[mostNibbleRows * nibbleColumns]float32) {
	if p.K == 0 {
		clear(tile[:])
		return
	}
	var part [mostNibbleRows * nibbleStrip]float32
	w := nibblePanel{chunks: p.chunks(), halves: min(p.Block, nibbleChunk) / 16, strip: nibbleStrip * p.deep() / 2, lines: nibbleStrip * p.blocks()}
	w.tile = unsafe.Pointer(&part)
	if p.Whole {
		quads, scales, sums := p.bytes(rows, first, m)
		w.rows, w.rowScales, w.sums = unsafe.Pointer(&quads[0]), unsafe.Pointer(&scales[0]), unsafe.Pointer(&sums[0])
	} else {
		w.rows = unsafe.Add(rows, 4*first*p.deep())
	}
	columns := nibbleWidth(m, p.Whole)
	for j := 0; j < strips*nibbleStrip; j += columns {
		s, half := j/nibbleStrip, j%nibbleStrip
		w.numbers = unsafe.Add(b.Numbers, s*w.strip+4*half)
		w.scales = unsafe.Add(b.Scales, 4*(s*w.lines+half))
		if b.Zeros != nil {
			w.zeros = unsafe.Add(b.Zeros, s*w.lines+half)
		}
		w.blocks = p.blocks()
		w.run(m, p.Whole)
		for r := range m {
			copy(tile[r*nibbleColumns+j:(r+1)*nibbleColumns], part[r*columns:][:columns])
		}
	}
}

// plain is the micro-kernel in Go: a row and a strip.
func (w *nibblePanel) plain(whole bool) {
	tile := (*[nibbleStrip]float32)(w.tile)
	*tile = [nibbleStrip]float32{}
	chunk := 16 * w.halves
	for i := range w.blocks {
		scales := (*[nibbleStrip]float32)(unsafe.Add(w.scales, 4*nibbleStrip*i))
		zeros := eights
		if w.zeros != nil {
			zeros = *(*[nibbleStrip]byte)(unsafe.Add(w.zeros, nibbleStrip*i))
		}
		for q := i * w.chunks; q < (i+1)*w.chunks; q++ {
			words := unsafe.Slice((*[nibbleStrip]uint32)(unsafe.Add(w.numbers, chunk/2*nibbleStrip*q)), chunk/nibbleWord)
			for j := range tile {
				if !whole {
					tile[j] += plainReals(words, j, unsafe.Slice(float(w.rows, 4*chunk*q), chunk), float32(zeros[j])) * scales[j]
					continue
				}
				sum := plainBytes(words, j, unsafe.Slice((*int8)(unsafe.Add(w.rows, chunk*q)), chunk))
				sum -= int32(zeros[j]) * *(*int32)(unsafe.Add(w.sums, 4*q))
				tile[j] += float32(sum) * (scales[j] * *float(w.rowScales, 4*i))
			}
		}
	}
}

// plainReals adds up the products of a row and column j.
func plainReals(words [][nibbleStrip]uint32, j int, row []float32, zero float32) (sum float32) {
	for i := range words {
		word := words[i][j]
		for _, x := range row[nibbleWord*i:][:nibbleWord] {
			sum += x * (float32(word&15) - zero)
			word >>= 4
		}
	}
	return sum
}

// plainBytes is plainReals for a row of bytes, whose even depths lie before the odd ones.
func plainBytes(words [][nibbleStrip]uint32, j int, row []int8) (sum int32) {
	for i := range words {
		word := words[i][j]
		quads := row[nibbleWord*i:][:nibbleWord]
		for k := range 4 {
			sum += int32(quads[k])*int32(word>>(8*k)&15) + int32(quads[4+k])*int32(word>>(8*k+4)&15)
		}
	}
	return sum
}
