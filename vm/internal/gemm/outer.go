package gemm

import "unsafe"

// Outer is a product of few depths whose elements are made where they are read, and never written:
// element (i, j) is the sum of A[k·Rows + i]·B[k·Columns + j]. Its bits are those of Product.
type Outer struct {
	A, B                 unsafe.Pointer // float32, outside of Go's heap
	Rows, Columns, Depth int
}

// mostOuter is the largest depth of an Outer.
const mostOuter = 32

// IsOuter reports whether a product can be an Outer: it needs vectors, and rows of whole ones.
func IsOuter(columns, depth int) bool {
	return chosen != plain && columns%8 == 0 && depth > 0 && depth <= mostOuter
}

// Elements writes elements of consecutive rows, from the given one on; it and their number are multiples
// of 8.
func (o *Outer) Elements(dst []float32, from int) {
	var weights [mostOuter]float32
	var rows [mostOuter]uintptr
	for len(dst) > 0 {
		i, j := from/o.Columns, from%o.Columns
		n := min(len(dst), o.Columns-j)
		for k := range o.Depth {
			weights[k] = *float(o.A, 4*(k*o.Rows+i))
			rows[k] = uintptr(unsafe.Add(o.B, 4*(k*o.Columns+j)))
		}
		weigh(&dst[0], n, &rows[0], &weights[0], o.Depth, 0, 0, 0, 0)
		dst, from = dst[n:], from+n
	}
}
