package gemm

import (
	"math"
	"unsafe"
)

// Format is how the numbers of an operand are stored.
type Format int8

// The formats.
const (
	Float32 Format = iota
	Float16
	BFloat16
)

// Dense is a matrix in memory: element (i, k) of A, or (k, j) of B, lies i (or
// j) times Step plus k times Deep elements after At. Len is the number of rows
// of A or columns of B.
type Dense struct {
	At         unsafe.Pointer
	Len        int
	Step, Deep int
	Format     Format
	Widen      func(uint16) float32 // of Float16
}

// Pack copies a strip.
func (m *Dense) Pack(dst []float32, width, first, k, n int) {
	rows := min(width, m.Len-first)
	if m.Format != Float32 {
		m.packHalf(dst, width, first, k, n, rows)
		return
	}
	if rows < width {
		clear(dst)
	}
	if m.Step == 1 {
		at := unsafe.Add(m.At, 4*(first+k*m.Deep))
		for d := range n {
			copy(dst[d*width:d*width+rows], unsafe.Slice((*float32)(unsafe.Add(at, 4*d*m.Deep)), rows))
		}
		return
	}
	for r := range rows {
		at := unsafe.Add(m.At, 4*((first+r)*m.Step+k*m.Deep))
		if m.Deep == 1 {
			for d, v := range unsafe.Slice((*float32)(at), n) {
				dst[d*width+r] = v
			}
			continue
		}
		for d := range n {
			dst[d*width+r] = *(*float32)(unsafe.Add(at, 4*d*m.Deep))
		}
	}
}

func (m *Dense) packHalf(dst []float32, width, first, k, n, rows int) {
	if rows < width {
		clear(dst)
	}
	for r := range rows {
		at := unsafe.Add(m.At, 2*((first+r)*m.Step+k*m.Deep))
		for d := range n {
			h := *(*uint16)(unsafe.Add(at, 2*d*m.Deep))
			if m.Format == BFloat16 {
				dst[d*width+r] = math.Float32frombits(uint32(h) << 16)
			} else {
				dst[d*width+r] = m.Widen(h)
			}
		}
	}
}
