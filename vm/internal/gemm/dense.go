package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Format is the storage format of an operand's numbers.
type Format int8

// The formats.
const (
	Float32 Format = iota
	Float16
	BFloat16
)

// narrow returns package simd's name of a 16-bit format.
func (f Format) narrow() simd.Narrow {
	if f == BFloat16 {
		return simd.BFloat16
	}
	return simd.Float16
}

// size is the size of a number in bytes.
func (f Format) size() int {
	if f == Float32 {
		return 4
	}
	return 2
}

// Dense is a matrix in memory. Element (i, k) of A lies i·Step + k·Deep elements after At,
// and so does element (k, i) of B. Len is the number of rows of A or columns of B.
type Dense struct {
	At         unsafe.Pointer
	Len        int
	Step, Deep int
	Format     Format

	// Taps is 0, or the number of taps of weights that a Spread image meets, or one with
	// channels Together. Deep channels of one tap come before those of the next tap. Channel
	// c and tap t of row i lie i·Step + c·Taps + t after At.
	Taps int
}

// fewRows stay in the cache, wherever they lie.
const fewRows = 8

// readable reports whether a product of the given columns may read A in place, without
// packing. Its rows then run along the depth and do not evict each other from the cache, or
// they are read too few times for packing to pay.
func (m *Dense) readable(columns int) bool {
	if m.Format != Float32 || m.Taps > 0 {
		return false
	}
	return m.Deep == 1 && (m.Step%1024 != 0 || m.Len <= fewRows) || columns <= 4*widest
}

// Pack copies a strip.
func (m *Dense) Pack(dst []float32, width, first, k, n int) {
	rows := min(width, m.Len-first)
	if rows < width {
		clear(dst)
	}
	switch {
	case m.Taps > 0:
		m.packTaps(dst, width, first, k, n, rows)
	case m.Format != Float32:
		m.packHalf(dst, width, first, k, n, rows)
	case m.Step == 1:
		m.packDown(dst, width, float(m.At, 4*(first+k*m.Deep)), n, rows)
	default:
		m.packAcross(dst, width, first, k, n, rows)
	}
}

// packDown packs rows that are contiguous in memory at each depth.
func (m *Dense) packDown(dst []float32, width int, from *float32, n, rows int) {
	if rows == width && width%16 == 0 && n > 0 {
		copyStrip(dst, width, from, n, m.Deep)
		return
	}
	at := unsafe.Pointer(from)
	switch {
	case rows == 6 && width == 6: // moves of up to 16 bytes take no call
		for d := range n {
			to, from := (*[6]float32)(dst[6*d:]), unsafe.Add(at, 4*d*m.Deep)
			*(*[4]float32)(to[:]) = *(*[4]float32)(from)
			*(*[2]float32)(to[4:]) = *(*[2]float32)(unsafe.Add(from, 16))
		}
	case rows == 12 && width == 12:
		for d := range n {
			to, from := (*[12]float32)(dst[12*d:]), unsafe.Add(at, 4*d*m.Deep)
			*(*[4]float32)(to[:]) = *(*[4]float32)(from)
			*(*[4]float32)(to[4:]) = *(*[4]float32)(unsafe.Add(from, 16))
			*(*[4]float32)(to[8:]) = *(*[4]float32)(unsafe.Add(from, 32))
		}
	default:
		for d := range n {
			copy(dst[d*width:d*width+rows], unsafe.Slice(float(at, 4*d*m.Deep), rows))
		}
	}
}

// packAcross packs rows that run along the depth, eight, four or two rows at a time.
func (m *Dense) packAcross(dst []float32, width, first, k, n, rows int) {
	at := func(r int) unsafe.Pointer { return unsafe.Add(m.At, 4*((first+r)*m.Step+k*m.Deep)) }
	r := 0
	if r = rows &^ 7; r > 0 && m.Deep == 1 && n > 0 {
		simd.Transpose(&dst[0], (*float32)(at(0)), width, m.Step, r, n)
	} else {
		r = 0
	}
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

// packTaps packs weights tap by tap.
func (m *Dense) packTaps(dst []float32, width, first, k, n, rows int) {
	for d := 0; d < n; {
		from, step, count := m.piece(k+d, n-d)
		for r := range rows {
			at := (first+r)*m.Step + from
			for c := range count {
				if m.Format == Float32 {
					dst[(d+c)*width+r] = *float(m.At, 4*(at+c*step))
				} else {
					simd.WidenRows(&dst[(d+c)*width+r], (*uint16)(unsafe.Add(m.At, 2*(at+c*step))), 1, 1, 0, 0, m.Format.narrow())
				}
			}
		}
		d += count
	}
}

// piece returns where the elements from depth k on lie in a row, at most n of them: the
// first one, and the step to the next.
func (m *Dense) piece(k, n int) (from, step, count int) {
	if m.Taps == 0 {
		return k * m.Deep, m.Deep, n
	}
	group, within := k/m.Deep, k%m.Deep
	tap, channel := group%m.Taps, group/m.Taps*m.Deep+within
	return channel*m.Taps + tap, m.Taps, min(n, m.Deep-within)
}

// packHalf widens 16-bit numbers: the rows of one depth at once if they are contiguous.
func (m *Dense) packHalf(dst []float32, width, first, k, n, rows int) {
	if n == 0 {
		return
	}
	from := (*uint16)(unsafe.Add(m.At, 2*(first*m.Step+k*m.Deep)))
	if m.Step == 1 {
		simd.WidenRows(&dst[0], from, n, rows, width, m.Deep, m.Format.narrow())
		return
	}
	if m.Deep == 1 {
		transposeHalf(&dst[0], from, width, m.Step, rows, n, m.Format)
		return
	}
	for r := range rows {
		for d := range n {
			simd.WidenRows(&dst[d*width+r], (*uint16)(unsafe.Add(unsafe.Pointer(from), 2*(r*m.Step+d*m.Deep))), 1, 1, 0, 0, m.Format.narrow())
		}
	}
}

// widen widens 16-bit numbers of one row, beginning at depth k.
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
