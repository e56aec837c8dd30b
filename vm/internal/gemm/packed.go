package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Packed is an operand that was packed completely, strip by strip, each strip over the
// whole depth. It is valid only for the micro-kernels that were in use then.
type Packed struct {
	At     unsafe.Pointer
	K      int
	Format Format // strips of 16-bit numbers are widened when they are used
	// Alike says that all numbers are the same, so one strip of mostDepth numbers serves in the
	// place of every strip, at every depth.
	Alike bool
}

// strip returns the numbers of a strip from depth k on.
func (m *Packed) strip(first, k, width int) unsafe.Pointer {
	if m.Alike {
		return m.At
	}
	return unsafe.Add(m.At, m.Format.size()*(first*m.K+k*width))
}

// StripLen is the number of rows of A in a strip, or of columns of B.
func StripLen(right bool) int {
	if right {
		return levels[chosen].columns
	}
	return levels[chosen].rows
}

// AlikeBytes is the size of an operand that is packed Alike.
func AlikeBytes(right bool) int { return 4 * mostDepth * StripLen(right) }

// PackAlike packs an operand whose numbers are all the given one into AlikeBytes(right) bytes.
func PackAlike(dst unsafe.Pointer, number float32, right bool) {
	to := unsafe.Slice((*float32)(dst), mostDepth*StripLen(right))
	for i := range to {
		to[i] = number
	}
}

// PackedABytes is the size of a packed A of m rows and k columns.
func PackedABytes(m, k int) int { return packedBytes(m, k, levels[chosen].rows) }

// PackedBBytes is the size of a packed B of k rows and n columns.
func PackedBBytes(n, k int) int { return packedBytes(n, k, levels[chosen].columns) }

func packedBytes(n, k, width int) int { return 4 * cuts(n, width) * width * k }

// PackA packs A, of m rows and k columns, into PackedABytes(m, k) bytes at dst. It returns
// early if run, which may be nil, is stopping.
func PackA(dst unsafe.Pointer, a Operand, m, k int, run Packing) Packed {
	return packWhole(dst, a, m, k, levels[chosen].rows, run)
}

// PackB packs B, of k rows and n columns, into PackedBBytes(n, k) bytes at dst. It stops
// like PackA.
func PackB(dst unsafe.Pointer, b Operand, n, k int, run Packing) Packed {
	return packWhole(dst, b, n, k, levels[chosen].columns, run)
}

func packWhole(dst unsafe.Pointer, from Operand, n, k, width int, run Packing) Packed {
	order := &pieces{n: n, k: k, width: width, byRows: true}
	if d, is := from.(*Dense); is {
		order = d.pieces(n, k, width)
	}
	order.pack(run, func(i, d, deep int) {
		from.Pack(unsafe.Slice(float(dst, 4*(i*k+d*width)), width*deep), width, i, d, deep)
	})
	return Packed{At: dst, K: k}
}

// PackNarrow packs the m rows of a 16-bit A, or the columns of B if right, in its own
// format, into half of PackedABytes or PackedBBytes. It stops like PackA.
func PackNarrow(dst unsafe.Pointer, from *Dense, m, k int, right bool, run Packing) Packed {
	width := levels[chosen].rows
	if right {
		width = levels[chosen].columns
	}
	from.pieces(m, k, width).pack(run, func(i, begin, deep int) {
		strip := unsafe.Slice((*uint16)(unsafe.Add(dst, 2*(i*k+begin*width))), width*deep)
		rows := min(width, m-i)
		if rows < width {
			clear(strip)
		}
		from.packBits(strip, width, i, begin, deep, rows)
	})
	return Packed{At: dst, K: k, Format: from.Format}
}

// packBits copies 16-bit numbers of a strip.
func (m *Dense) packBits(dst []uint16, width, first, k, n, rows int) {
	at := func(r, off int) *uint16 { return (*uint16)(unsafe.Add(m.At, 2*((first+r)*m.Step+off))) }
	switch {
	case n == 0:
	case m.Taps == 0 && m.Deep == 1:
		simd.Transpose(&dst[0], at(0, k), width, m.Step, rows, n)
	case m.Taps == 0 && m.Step == 1:
		for d := range n {
			copy(dst[d*width:d*width+rows], unsafe.Slice(at(0, (k+d)*m.Deep), rows))
		}
	default:
		for d := 0; d < n; {
			from, step, count := m.piece(k+d, n-d)
			for r := range rows {
				for c := range count {
					dst[(d+c)*width+r] = *at(r, from+c*step)
				}
			}
			d += count
		}
	}
}

// Pack copies a strip.
func (m *Packed) Pack(dst []float32, width, first, k, n int) {
	if m.Format != Float32 {
		simd.Widen(dst, unsafe.Slice((*uint16)(m.strip(first, k, width)), width*n), m.Format.narrow())
		return
	}
	copy(dst, unsafe.Slice((*float32)(m.strip(first, k, width)), width*n))
}
