package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Format is how the numbers of an operand are stored.
type Format int8

// The formats.
const (
	Float32 Format = iota
	Float16
	BFloat16
)

// narrow is the type of the numbers of 16 bits.
func (f Format) narrow() simd.Narrow {
	if f == BFloat16 {
		return simd.BFloat16
	}
	return simd.Float16
}

// Dense is a matrix in memory: element (i, k) of A, or (k, j) of B, lies i (or
// j) times Step plus k times Deep elements after At. Len is the number of rows
// of A or columns of B.
type Dense struct {
	At         unsafe.Pointer
	Len        int
	Step, Deep int
	Format     Format
}

// readable reports whether an A is as well read where it lies, for a product of
// so many columns: its rows run along the depth and do not fall on each other in
// the cache, or they are read too few times to be worth packing.
func (m *Dense) readable(columns int) bool {
	if m.Format != Float32 {
		return false
	}
	return m.Deep == 1 && m.Step%1024 != 0 || columns <= 4*widest
}

// Pack copies a strip.
func (m *Dense) Pack(dst []float32, width, first, k, n int) {
	rows := min(width, m.Len-first)
	if rows < width {
		clear(dst)
	}
	switch {
	case m.Format != Float32:
		m.packHalf(dst, width, first, k, n, rows)
	case m.Step == 1:
		m.packDown(dst, width, float(m.At, 4*(first+k*m.Deep)), n, rows)
	default:
		m.packAcross(dst, width, first, k, n, rows)
	}
}

// packDown copies where rows of the strip lie side by side in memory.
func (m *Dense) packDown(dst []float32, width int, from *float32, n, rows int) {
	if rows == width && width%16 == 0 && n > 0 {
		copyStrip(dst, width, from, n, m.Deep)
		return
	}
	at := unsafe.Pointer(from)
	for d := range n {
		copy(dst[d*width:d*width+rows], unsafe.Slice(float(at, 4*d*m.Deep), rows))
	}
}

// packAcross copies row by row of the operand, four or two at once.
func (m *Dense) packAcross(dst []float32, width, first, k, n, rows int) {
	at := func(r int) unsafe.Pointer { return unsafe.Add(m.At, 4*((first+r)*m.Step+k*m.Deep)) }
	r := 0
	for ; r+4 <= rows && m.Deep == 1; r += 4 {
		a, b := unsafe.Slice((*float32)(at(r)), n), unsafe.Slice((*float32)(at(r+1)), n)
		c, e := unsafe.Slice((*float32)(at(r+2)), n), unsafe.Slice((*float32)(at(r+3)), n)
		for d := range n {
			to := (*[4]float32)(dst[d*width+r:])
			to[0], to[1], to[2], to[3] = a[d], b[d], c[d], e[d]
		}
	}
	for ; r+2 <= rows && m.Deep == 1; r += 2 {
		a, b := unsafe.Slice((*float32)(at(r)), n), unsafe.Slice((*float32)(at(r+1)), n)
		for d := range n {
			to := (*[2]float32)(dst[d*width+r:])
			to[0], to[1] = a[d], b[d]
		}
	}
	for ; r < rows; r++ {
		from := at(r)
		for d := range n {
			dst[d*width+r] = *float(from, 4*d*m.Deep)
		}
	}
}

// packHalf widens numbers of 16 bits: whole rows of the strip where they lie side
// by side, else whole depths, which are then spread.
func (m *Dense) packHalf(dst []float32, width, first, k, n, rows int) {
	if n == 0 {
		return
	}
	from := (*uint16)(unsafe.Add(m.At, 2*(first*m.Step+k*m.Deep)))
	if m.Step == 1 {
		simd.WidenRows(&dst[0], from, n, rows, width, m.Deep, m.Format.narrow())
		return
	}
	var aside [mostDepth]float32
	for r := range rows {
		for d := 0; d < n; d += mostDepth {
			piece := aside[:min(mostDepth, n-d)]
			m.widen(piece, first+r, k+d)
			for i, v := range piece {
				dst[(d+i)*width+r] = v
			}
		}
	}
}

// widen writes numbers of one row of the strip, of 16 bits, from depth k on.
func (m *Dense) widen(dst []float32, row, k int) {
	at := unsafe.Add(m.At, 2*(row*m.Step+k*m.Deep))
	if m.Deep == 1 {
		simd.Widen(dst, unsafe.Slice((*uint16)(at), len(dst)), m.Format.narrow())
		return
	}
	for d := range dst {
		simd.WidenRows(&dst[d], (*uint16)(unsafe.Add(at, 2*d*m.Deep)), 1, 1, 0, 0, m.Format.narrow())
	}
}
