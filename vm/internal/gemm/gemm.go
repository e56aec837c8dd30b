// Package gemm multiplies matrices of float32: C = A·B, and what follows right
// after (a bias, an activation), in blocks that stay in the cache. What is
// multiplied is told by how it is packed, so a convolution is a product whose B
// is packed straight from the image (implicit im2col).
//
//	Operand   packs a strip of A (Rows rows) or of B (Columns columns)
//	Product   C = A·B with an epilogue, cut into tiles
//
// The order in which the terms of one element of C are added depends on K alone,
// so results are the same bits for any number of workers.
package gemm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// The micro-kernel makes a block of Rows x Columns elements of C.
const (
	Rows    = 4
	Columns = 8
)

// The blocks that are packed: depth x tile columns of B, tile rows x depth of A.
const (
	depth       = 256
	tileRows    = 64
	tileColumns = 256
)

// Operand is one side of a product.
type Operand interface {
	// Pack writes a strip for the micro-kernel: width rows of A (or columns of
	// B) from first on, at depths [k, k+n), depth by depth, width numbers
	// each; rows beyond the end are zeros.
	Pack(dst []float32, width, first, k, n int)
}

// Activation is applied to an element of C once it is complete.
type Activation int8

// The activations.
const (
	None Activation = iota
	Relu
	Clip // to [Low, High]
)

// Product is C = Alpha·A·B + bias, C row by row.
type Product struct {
	M, N, K   int
	A, B      Operand
	Alpha     float32
	Stride    int // of the rows of C, in elements
	RowBias   bool
	ColBias   bool
	Beta      float32 // C = … + Beta·C: what is in C before counts
	Act       Activation
	Low, High float32
}

// ScratchBytes is what each worker needs.
const ScratchBytes = 4 * (depth*tileColumns + depth*tileRows + Rows*Columns)

// Tiles is how many parts the product is cut into.
func (p *Product) Tiles() int { return cuts(p.M, tileRows) * cuts(p.N, tileColumns) }

func cuts(n, size int) int { return (n + size - 1) / size }

// Tile computes one part: C and the bias lie at the given addresses, scratch has
// ScratchBytes bytes.
func (p *Product) Tile(tile int, c, bias, scratch unsafe.Pointer) {
	down := cuts(p.M, tileRows)
	i0, j0 := tile%down*tileRows, tile/down*tileColumns
	m, n := min(tileRows, p.M-i0), min(tileColumns, p.N-j0)
	block := unsafe.Slice((*float32)(scratch), ScratchBytes/4)
	b, a, acc := block[:depth*tileColumns], block[depth*tileColumns:], block[depth*(tileColumns+tileRows):]
	if p.K == 0 {
		clear(acc[:Rows*Columns])
		for i := 0; i < m; i += Rows {
			for j := 0; j < n; j += Columns {
				p.store(c, bias, acc, i0+i, j0+j, min(Rows, m-i), min(Columns, n-j), true, true)
			}
		}
		return
	}
	for k := 0; k < p.K; k += depth {
		d := min(depth, p.K-k)
		for j := 0; j < n; j += Columns {
			p.B.Pack(b[j*d:(j+Columns)*d], Columns, j0+j, k, d)
		}
		for i := 0; i < m; i += Rows {
			p.A.Pack(a[i*d:(i+Rows)*d], Rows, i0+i, k, d)
		}
		for j := 0; j < n; j += Columns {
			for i := 0; i < m; i += Rows {
				micro(acc, a[i*d:(i+Rows)*d], b[j*d:(j+Columns)*d], d)
				p.store(c, bias, acc, i0+i, j0+j, min(Rows, m-i), min(Columns, n-j), k == 0, k+d == p.K)
			}
		}
	}
}

// store adds a block to C: first and last say whether it is the first and the
// last in depth.
func (p *Product) store(c, bias unsafe.Pointer, acc []float32, i, j, m, n int, first, last bool) {
	for r := range m {
		row := unsafe.Slice((*float32)(unsafe.Add(c, 4*((i+r)*p.Stride+j))), n)
		from := acc[r*Columns : r*Columns+n]
		switch {
		case !first:
			for x, v := range from {
				row[x] += p.Alpha * v
			}
		case p.Beta != 0:
			for x, v := range from {
				row[x] = p.Beta*row[x] + p.Alpha*v
			}
		default:
			for x, v := range from {
				row[x] = p.Alpha * v
			}
		}
		if !last {
			continue
		}
		if p.RowBias {
			v := *(*float32)(unsafe.Add(bias, 4*(i+r)))
			for x := range row {
				row[x] += v
			}
		}
		if p.ColBias {
			for x, v := range unsafe.Slice((*float32)(unsafe.Add(bias, 4*j)), n) {
				row[x] += v
			}
		}
		switch p.Act {
		case Relu:
			for x, v := range row {
				if !(v > 0 || v != v) {
					row[x] = 0
				}
			}
		case Clip:
			for x, v := range row {
				row[x] = min(max(v, p.Low), p.High)
			}
		}
	}
}

// micro multiplies a strip of A with a strip of B, both of depth d.
func micro(acc, a, b []float32, d int) {
	for half := 0; half < Columns; half += 4 {
		var (
			c00, c01, c02, c03 float32
			c10, c11, c12, c13 float32
			c20, c21, c22, c23 float32
			c30, c31, c32, c33 float32
		)
		x, y := a, b[half:]
		for range d {
			_, _ = x[3], y[3]
			b0, b1, b2, b3 := y[0], y[1], y[2], y[3]
			a0 := x[0]
			c00 += a0 * b0
			c01 += a0 * b1
			c02 += a0 * b2
			c03 += a0 * b3
			a1 := x[1]
			c10 += a1 * b0
			c11 += a1 * b1
			c12 += a1 * b2
			c13 += a1 * b3
			a2 := x[2]
			c20 += a2 * b0
			c21 += a2 * b1
			c22 += a2 * b2
			c23 += a2 * b3
			a3 := x[3]
			c30 += a3 * b0
			c31 += a3 * b1
			c32 += a3 * b2
			c33 += a3 * b3
			x = x[Rows:]
			y = y[min(Columns, len(y)):]
		}
		o := acc[half : half+3*Columns+4]
		o[0], o[1], o[2], o[3] = c00, c01, c02, c03
		o[8], o[9], o[10], o[11] = c10, c11, c12, c13
		o[16], o[17], o[18], o[19] = c20, c21, c22, c23
		o[24], o[25], o[26], o[27] = c30, c31, c32, c33
	}
}

// Run computes all tiles of a product on the workers of w. each is the offset of
// a worker's scratch. It makes a closure: a kernel that must not allocate calls
// Tile from one of its own.
func (p *Product) Run(w *work.Pool, c, bias unsafe.Pointer, each int) {
	w.For(p.Tiles(), func(tile, worker int) { p.Tile(tile, c, bias, w.Each(worker, each)) })
}
