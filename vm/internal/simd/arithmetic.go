package simd

import (
	"math"
	"unsafe"
)

// Add writes a + b for each pair of numbers; dst may be a or b.
func Add(dst, a, b []float32) {
	n := pairs(len(dst), vectorAdd, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] + b[i]
	}
}

// Sub writes a - b for each pair of numbers; dst may be a or b.
func Sub(dst, a, b []float32) {
	n := pairs(len(dst), vectorSub, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] - b[i]
	}
}

// Mul writes a·b for each pair of numbers; dst may be a or b.
func Mul(dst, a, b []float32) {
	n := pairs(len(dst), vectorMul, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] * b[i]
	}
}

// Div writes a/b for each pair of numbers; dst may be a or b.
func Div(dst, a, b []float32) {
	n := pairs(len(dst), vectorDiv, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] / b[i]
	}
}

// Max writes the larger number of each pair, and NaN if either is NaN; dst may be a or
// b. For 0 and -0 it writes either.
func Max(dst, a, b []float32) {
	n := pairs(len(dst), vectorMax, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = max(a[i], b[i])
	}
}

// AddScalar writes a + b for each number of a; dst may be a.
func AddScalar(dst, a []float32, b float32) {
	n := singles(len(dst), vectorAdd, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] + b
	}
}

// SubFrom writes b - a for each number of a; dst may be a.
func SubFrom(dst, a []float32, b float32) {
	n := singles(len(dst), vectorSubFrom, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = b - a[i]
	}
}

// MulScalar writes a·b for each number of a; dst may be a.
func MulScalar(dst, a []float32, b float32) {
	n := singles(len(dst), vectorMul, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] * b
	}
}

// DivScalar writes a/b for each number of a; dst may be a.
func DivScalar(dst, a []float32, b float32) {
	n := singles(len(dst), vectorDiv, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = a[i] / b
	}
}

// DivBy writes b/a for each number of a; dst may be a.
func DivBy(dst, a []float32, b float32) {
	n := singles(len(dst), vectorDivBy, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = b / a[i]
	}
}

// Affine writes scale·x + shift for each x of src; dst may be src. The vectors round once.
func Affine(dst, src []float32, scale, shift float32) {
	each(dst, src, scale, shift, vectorAffine, func(x float32) float32 { return scale*x + shift })
}

// AddEveryOther adds the numbers of src to the numbers 0, 2, 4 … of dst, which has twice as
// many or one less. The numbers between keep their values; there, -0 may become 0.
func AddEveryOther(dst, src []float32) {
	n := 0
	if whole := (len(src) - 1) &^ 7; available && whole > 0 { // the last has no neighbour, perhaps
		_ = dst[2*whole]
		addEveryOtherAVX2(&dst[0], &src[0], whole)
		n = whole
	}
	for i, x := range src[n:] {
		dst[2*(n+i)] += x
	}
}

// arithmetic names an operation in assembly.
type arithmetic int8

const (
	vectorAdd arithmetic = iota
	vectorSub
	vectorSubFrom
	vectorMul
	vectorDiv
	vectorDivBy
	vectorMax
)

// pairs applies an operation to as many pairs of numbers as fill whole vectors, and
// returns their number.
func pairs(n int, op arithmetic, dst, a, b []float32) int {
	_, _ = a[:n], b[:n]
	if n &^= 7; !available || n == 0 {
		return 0
	}
	op.lists(&dst[0], &a[0], &b[0], n)
	return n
}

func singles(n int, op arithmetic, dst, a []float32, b float32) int {
	_ = a[:n]
	if n &^= 7; !available || n == 0 {
		return 0
	}
	op.scalar(&dst[0], &a[0], n, b)
	return n
}

// Sum adds up numbers in float64, in an order that depends only on their number.
func Sum(x []float32) float64 {
	sum := 0.0
	if n := len(x) &^ 15; available && n > 0 {
		sum = sumAVX2(&x[0], n)
		x = x[n:]
	}
	for _, v := range x {
		sum += float64(v)
	}
	return sum
}

// AddWide adds numbers to sums.
func AddWide(sums []float64, x []float32) {
	sums = sums[:len(x)]
	if n := len(x) &^ 15; available && n > 0 {
		addWideAVX2(&sums[0], &x[0], n)
		sums, x = sums[n:], x[n:]
	}
	for i, v := range x {
		sums[i] += float64(v)
	}
}

// Squares adds up the squares of x - mean in float64, in an order that depends only on
// their number.
func Squares(x []float32, mean float64) float64 {
	sum := 0.0
	if n := len(x) &^ 15; available && n > 0 {
		sum = squaresAVX2(&x[0], n, mean)
		x = x[n:]
	}
	for _, v := range x {
		d := float64(v) - mean
		sum += d * d
	}
	return sum
}

// Standardize writes (x - mean)·inverse for each x of src, computed in float64 and rounded
// once; dst may be src.
func Standardize(dst, src []float32, mean, inverse float64) {
	dst = dst[:len(src)]
	n := 0
	if whole := len(src) &^ 7; available && whole > 0 {
		standardizeAVX2(&dst[0], &src[0], whole, mean, inverse)
		n = whole
	}
	for i, x := range src[n:] {
		dst[n+i] = float32((float64(x) - mean) * inverse)
	}
}

// Largest returns the largest number of x, or -∞ if there is none; it leaves out NaN. Of 0
// and -0 it returns either.
func Largest(x []float32) float32 {
	most := float32(math.Inf(-1))
	if n := len(x) &^ 7; available && n > 0 {
		most = largestAVX2(&x[0], n)
		x = x[n:]
	}
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	return most
}

// Transpose writes a matrix of rows x columns numbers to dst as columns x rows. The
// steps are the distances between rows, in elements. Numbers have 16 or 32 bits.
func Transpose[T float32 | uint16](dst, src *T, dstStep, srcStep, rows, columns int) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	at := func(p *T, i int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), size*i)) }
	wholeRows, wholeColumns := rows&^7, columns&^7
	if !available {
		wholeRows, wholeColumns = 0, 0
	}
	// The rows of dst for this many columns of src stay in the cache.
	const most = 64
	for c := 0; c < wholeColumns; c += most {
		blocks := min(most, wholeColumns-c) / 8
		for r := 0; r < wholeRows; r += 8 {
			d, s := unsafe.Pointer(at(dst, c*dstStep+r)), unsafe.Pointer(at(src, r*srcStep+c))
			if size == 2 {
				transpose16AVX2((*uint16)(d), (*uint16)(s), 2*dstStep, 2*srcStep, blocks)
			} else {
				transposeAVX2((*float32)(d), (*float32)(s), 4*dstStep, 4*srcStep, blocks)
			}
		}
	}
	for r := range rows {
		from := wholeColumns
		if r >= wholeRows {
			from = 0
		}
		for c := from; c < columns; c++ {
			*at(dst, c*dstStep+r) = *at(src, r*srcStep+c)
		}
	}
}
