package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// leastTall is the number of rows from which columns are widened for whole groups of rows. For
// 12 rows that is a twentieth faster than groups of 8 and 4 with AVX-512, and a quarter with
// AVX2.
const leastTall = 12

// tall returns the number of groups of rows that meet widened columns, and their height. The
// last group may lack rows, less than half of them, which are then 0. These groups need
// vectors; they round like the others, so bits do not change.
func (p *Nibbles) tall() (groups, height int) {
	if p.Whole || p.M < leastTall || chosen == plain {
		return 0, 0
	}
	height = levels[chosen].rows
	return (p.M + height/2) / height, height
}

// nibbleScratch is the scratch of a part of tall groups.
type nibbleScratch struct {
	columns [mostDepth * widest]float32
	scales  [mostDepth / 16 * widest]float32 // of each chunk
	sums    [tileRows * nibbleColumns]float32
}

// ScratchBytes is the scratch that Part needs, or 0.
func (p *Nibbles) ScratchBytes() int {
	if groups, _ := p.tall(); groups == 0 {
		return 0
	}
	return int(unsafe.Sizeof(nibbleScratch{}))
}

// layTall lays out a tall group.
func (p *Nibbles) layTall(g, height int, a []float32, rows unsafe.Pointer) {
	to := unsafe.Slice(float(rows, 4*g*height*p.deep()), height*p.deep())
	from := Dense{At: unsafe.Pointer(unsafe.SliceData(a)), Len: p.M, Step: p.K, Deep: 1}
	from.Pack(to[:height*p.K], height, g*height, 0, p.K)
	clear(to[height*p.K:])
}

// tallPart computes the rows of all tall groups. For each tile of them it widens a strip of
// columns at a block of depths, which all groups of the tile then read from the cache.
func (p *Nibbles) tallPart(part int, b *PackedNibbles, rows, c unsafe.Pointer, stride int, bias []float32, s *nibbleScratch, stop Stopper) {
	groups, height := p.tall()
	width, chunk := levels[chosen].columns, min(p.Block, nibbleChunk)
	j, n := p.Columns(part)
	for first := 0; first < groups; first += tileRows / height {
		last := min(first+tileRows/height, groups)
		clear(s.sums[:(last-first)*height*nibbleColumns])
		for k := 0; k < p.deep(); k += mostDepth {
			deep := min(mostDepth, p.deep()-k)
			for from := 0; from < n; from += width {
				if stop != nil && stop.Stopping() {
					return
				}
				for strip := from; strip < min(from+width, n); strip += nibbleStrip {
					p.widen(b, strip, strip-from, k, deep, width, s)
				}
				sums := s.sums[(last-first)*height*from:]
				for g := first; g < last; g++ {
					row := float(rows, 4*height*(g*p.deep()+k))
					nibbleTile(row, &s.columns[0], &s.scales[0], &sums[(g-first)*height*width], deep/chunk, chunk/16)
				}
			}
		}
		for r := first * height; r < min(last*height, p.M); r++ {
			to := unsafe.Slice(float(c, 4*(r*stride+j)), n)
			for from := 0; from < n; from += width {
				copy(to[from:], s.sums[(last-first)*height*from+(r-first*height)*width:][:width])
			}
			if bias != nil {
				simd.Add(to, to, bias[j:j+n])
			}
		}
	}
}

// widen writes 16 columns at depths [k, k+deep) beside those before in a strip of width
// columns, and the scales of each chunk.
func (p *Nibbles) widen(b *PackedNibbles, column, at, k, deep, width int, s *nibbleScratch) {
	zeros := eights[:]
	block, chunk := min(p.Block, deep), min(p.Block, nibbleChunk)
	for d := 0; d < deep; d += block {
		i := column*p.blocks() + (k+d)/p.Block*nibbleStrip
		if b.Zeros != nil {
			zeros = unsafe.Slice((*byte)(unsafe.Add(b.Zeros, i)), nibbleStrip)
		}
		numbers := (*byte)(unsafe.Add(b.Numbers, (column*p.deep()+nibbleStrip*(k+d))/2))
		widenNibbles(&s.columns[d*width+at], numbers, &zeros[0], block/16, 4*width)
		scales := *(*[nibbleStrip]float32)(unsafe.Add(b.Scales, 4*i))
		for q := d; q < d+block; q += chunk {
			*(*[nibbleStrip]float32)(s.scales[q/chunk*width+at:]) = scales
		}
	}
}

// eights are zero points that are not given.
var eights = [nibbleStrip]byte{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}
