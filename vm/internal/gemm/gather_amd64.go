package gemm

import "unsafe"

// gathering is the work of one call of gather1 or gather2: 16 columns of an image
// for one tap, channel by channel. Package asm knows the fields by their offsets.
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

// copyStrip copies n rows of a strip, whose width is a multiple of 16; those of
// src stand deep numbers apart.
func copyStrip(dst []float32, width int, src *float32, n, deep int) {
	for x := 0; x < width; x += 16 {
		copyRows(&dst[x], float(unsafe.Pointer(src), 4*x), n, 4*width, 4*deep)
	}
}

//go:noescape
func evensAVX2(dst, src *float32, n int)

// everySecond copies numbers 0, 2, 4 and so on, as many as go at once; it is
// called where there are vectors.
func everySecond(dst, src []float32) int {
	n := min(len(dst), len(src)/2) &^ 7
	if n > 0 {
		evensAVX2(&dst[0], &src[0], n)
	}
	return n
}

//go:noescape
func tapsAVX2(dst *float32, n int, rows *uintptr, weights *float32, count int, bias float32)

// weigh writes bias + Σ weights[t]·rows[t][i] for n numbers, a multiple of 8;
// rows are addresses in memory that Go does not move.
func weigh(dst *float32, n int, rows *uintptr, weights *float32, count int, bias float32) {
	tapsAVX2(dst, n, rows, weights, count, bias)
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

// gathers reports whether a strip can be packed by gather: no 8 columns come in
// more than two pieces.
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

// gather does what copy does, for strips that gathers names.
func (m *Image) gather(dst []float32, pieces []piece, width, step, tap, channel, count int) {
	volume := m.In[0] * m.In[1] * m.In[2]
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
					break // it goes on
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
