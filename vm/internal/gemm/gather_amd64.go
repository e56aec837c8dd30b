package gemm

import "unsafe"

// gathering holds the arguments of gather1 and gather2, which read 16 columns of an image
// for one tap, channel by channel. Package asm addresses the fields by their offsets.
type gathering struct {
	dst, src         unsafe.Pointer
	count            int // 1 or more
	dstStep, srcStep int // bytes
	pieces           [4]struct {
		off  int // bytes from src to column 0 of the 8
		mask *[8]int32
	}
}

//go:noescape
func gather1(p *gathering)

//go:noescape
func gather2(p *gathering)

//go:noescape
func copyRows(dst, src *float32, rows, dstStep, srcStep int)

// copyStrip copies n rows of a strip, whose width is a multiple of 16. The rows of src
// are deep numbers apart.
func copyStrip(dst []float32, width int, src *float32, n, deep int) {
	for x := 0; x < width; x += 16 {
		copyRows(&dst[x], float(unsafe.Pointer(src), 4*x), n, 4*width, 4*deep)
	}
}

//go:noescape
func tapsAVX2(dst *float32, n int, rows *uintptr, weights *float32, count int, clamp int, bias, low, high float32)

// weigh writes bias + Σ weights[t]·rows[t][i] for n numbers, a multiple of 8, clamped to
// [low, high] if clamp is not 0. rows are addresses outside of Go's heap.
func weigh(dst *float32, n int, rows *uintptr, weights *float32, count int, clamp int, bias, low, high float32) {
	tapsAVX2(dst, n, rows, weights, count, clamp, bias, low, high)
}

//go:noescape
func dotsAVX2(sums *[3]float32, x, a, b, c *float32, n int)

// dots writes the sums of the products of x with a, b and c, of n numbers, a multiple of 8.
func dots(sums *[3]float32, x, a, b, c *float32, n int) { dotsAVX2(sums, x, a, b, c, n) }

//go:noescape
func largestTapAVX2(dst *float32, taps *int32, n int, rows *uintptr, count int)

// largestTap is largest that also writes which row each number comes from: the first of
// equal ones, the last NaN, or -1 if all numbers are -∞.
func largestTap(dst *float32, taps *int32, n int, rows *uintptr, count int) {
	largestTapAVX2(dst, taps, n, rows, count)
}

//go:noescape
func largestAVX2(dst *float32, n int, rows *uintptr, count int)

// largest writes the largest of rows[t][i] for n numbers, a multiple of 8, and NaN if one
// is NaN. rows are addresses outside of Go's heap.
func largest(dst *float32, n int, rows *uintptr, count int) { largestAVX2(dst, n, rows, count) }

// spreadPlane copies every s-th column of count rows of an image, rowStep apart, to rows
// of length numbers; count is at least 1. Column 0 is x numbers after src, and may lie
// outside of the image: only columns [from, to) are read, the others are 0. It may write
// up to 15 numbers behind the last row.
func spreadPlane(dst, src unsafe.Pointer, count, length, rowStep, x, s, from, to int) {
	if s > 2 {
		for r := range count {
			row := unsafe.Slice(float(dst, 4*r*length), length)
			clear(row)
			for j := from; j < to; j++ {
				row[j] = *float(src, 4*(r*rowStep+x+j*s))
			}
		}
		return
	}
	g := gathering{src: src, count: count, dstStep: 4 * length, srcStep: 4 * rowStep}
	// The last columns go first: they overwrite the beginning of the next row, which is
	// written afterwards.
	for c := (length - 1) &^ 15; c >= 0; c -= 16 {
		g.dst = unsafe.Add(dst, 4*c)
		for half := range 2 {
			first := c + 8*half
			g.pieces[2*half].off, g.pieces[2*half].mask = 4*(x+first*s), &spans[min(max(from-first, 0), 8)][min(max(to-first, 0), 8)]
			if from >= to || to <= first {
				g.pieces[2*half].mask = &spans[0][0]
			}
			g.pieces[2*half+1].mask = &spans[0][0]
		}
		if s == 1 {
			gather1(&g)
		} else {
			gather2(&g)
		}
	}
}

// unspread copies the first length numbers of count rows, which are step numbers apart,
// so that they become contiguous.
func unspread(dst, src unsafe.Pointer, count, length, step int) {
	// Copy whole vectors, as long as none ends behind the last row.
	wide := (length + 15) &^ 15
	fast := min(max((count*length-wide)/length+1, 0), count)
	if count*length < wide {
		fast = 0
	}
	for c := wide - 16; c >= 0 && fast > 0; c -= 16 {
		copyRows(float(dst, 4*c), float(src, 4*c), fast, 4*length, 4*step)
	}
	for r := fast; r < count; r++ {
		copy(unsafe.Slice(float(dst, 4*r*length), length), unsafe.Slice(float(src, 4*r*step), length))
	}
}

// spans[from][to] is the mask of lanes [from, to).
var spans = func() (t [9][9][8]int32) {
	for from := range 9 {
		for to := from; to <= 8; to++ {
			for l := from; l < to; l++ {
				t[from][to][l] = -1
			}
		}
	}
	return t
}()

// gathers reports whether gather can pack a strip: each 8 columns must come from at most
// two pieces.
func (m *Image) gathers(pieces []piece, width int) bool {
	if chosen == plain || m.Stride[2] > 2 || width%16 != 0 {
		return false
	}
	for i := 2; i < len(pieces); i++ {
		if pieces[i].from/8 == (pieces[i-2].to-1)/8 {
			return false
		}
	}
	return true
}

// gather is copy for the strips that gathers accepts.
func (m *Image) gather(dst []float32, pieces []piece, width, step, tap, channel, count int) {
	volume, _ := m.strides()
	kd, kh, kw := m.tap(tap)
	g := gathering{count: count, dstStep: 4 * step, srcStep: 4 * volume, src: unsafe.Add(m.At, 4*channel*volume)}
	i := 0
	for x := 0; x < width; x += 16 {
		for half := range 2 {
			c := x + 8*half
			used := 0
			for ; i < len(pieces) && pieces[i].from < c+8; i++ {
				from, to, at := m.see(&pieces[i], kd, kh, kw)
				p := &g.pieces[2*half+used]
				used++
				p.off, p.mask = 4*(at+c*m.Stride[2]), &spans[min(max(from-c, 0), 8)][min(max(to-c, 0), 8)]
				if from >= to {
					p.off, p.mask = 0, &spans[0][0]
				}
				if pieces[i].to > c+8 {
					break // the piece continues in the next 8 columns
				}
			}
			for ; used < 2; used++ {
				p := &g.pieces[2*half+used]
				p.off, p.mask = 0, &spans[0][0]
			}
		}
		g.dst = unsafe.Pointer(&dst[x])
		if m.Stride[2] == 1 {
			gather1(&g)
		} else {
			gather2(&g)
		}
	}
}
