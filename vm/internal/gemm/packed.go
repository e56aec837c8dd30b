package gemm

import "unsafe"

// Packed is an operand that was packed completely, strip by strip, each strip over the
// whole depth. It is valid only for the micro-kernels that were in use then.
type Packed struct {
	At unsafe.Pointer
	K  int
}

// PackedABytes is the size of a packed A of m rows and k columns.
func PackedABytes(m, k int) int { return packedBytes(m, k, levels[chosen].rows) }

// PackedBBytes is the size of a packed B of k rows and n columns.
func PackedBBytes(n, k int) int { return packedBytes(n, k, levels[chosen].columns) }

func packedBytes(n, k, width int) int { return 4 * cuts(n, width) * width * k }

// PackA packs A, of m rows and k columns, into PackedABytes(m, k) bytes at dst. It returns
// early if stop, which may be nil, is stopping.
func PackA(dst unsafe.Pointer, a Operand, m, k int, stop Stopper) Packed {
	return packWhole(dst, a, m, k, levels[chosen].rows, stop)
}

// PackB packs B, of k rows and n columns, into PackedBBytes(n, k) bytes at dst. It stops
// like PackA.
func PackB(dst unsafe.Pointer, b Operand, n, k int, stop Stopper) Packed {
	return packWhole(dst, b, n, k, levels[chosen].columns, stop)
}

func packWhole(dst unsafe.Pointer, from Operand, n, k, width int, stop Stopper) Packed {
	for i := 0; i < n && (stop == nil || !stop.Stopping()); i += width {
		from.Pack(unsafe.Slice(float(dst, 4*i*k), width*k), width, i, 0, k)
	}
	return Packed{dst, k}
}

// Pack copies a strip.
func (m *Packed) Pack(dst []float32, width, first, k, n int) {
	copy(dst, unsafe.Slice(float(m.At, 4*(first*m.K+k*width)), width*n))
}
