package simd

import (
	"encoding/binary"
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

// Max writes the larger number of each pair, and NaN if either is NaN; dst may be a or b.
// 0 is larger than -0.
func Max(dst, a, b []float32) {
	n := pairs(len(dst), vectorMax, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = max(a[i], b[i])
	}
}

// Min writes the smaller number of each pair, and NaN if either is NaN; dst may be a or b.
// -0 is smaller than 0.
func Min(dst, a, b []float32) {
	n := pairs(len(dst), vectorMin, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = min(a[i], b[i])
	}
}

// MaxScalar is Max with one b; dst may be a.
func MaxScalar(dst, a []float32, b float32) {
	n := singles(len(dst), vectorMax, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = max(a[i], b)
	}
}

// MinScalar is Min with one b; dst may be a.
func MinScalar(dst, a []float32, b float32) {
	n := singles(len(dst), vectorMin, dst, a, b)
	for i := n; i < len(dst); i++ {
		dst[i] = min(a[i], b)
	}
}

// Neg writes -x for each number; dst may be a.
func Neg(dst, a []float32) {
	for i := list(len(dst), vectorNeg, dst, a); i < len(dst); i++ {
		dst[i] = -a[i]
	}
}

// Sign writes 1 for each number above 0, -1 for those below, and others as they are; dst may
// be a.
func Sign(dst, a []float32) {
	for i := list(len(dst), vectorSign, dst, a); i < len(dst); i++ {
		switch x := a[i]; {
		case x > 0:
			dst[i] = 1
		case x < 0:
			dst[i] = -1
		default:
			dst[i] = x
		}
	}
}

// Sqrt writes the square root of each number; dst may be a.
func Sqrt(dst, a []float32) {
	for i := list(len(dst), vectorSqrt, dst, a); i < len(dst); i++ {
		dst[i] = float32(math.Sqrt(float64(a[i])))
	}
}

// Abs writes the absolute value of each number; dst may be a.
func Abs(dst, a []float32) {
	for i := list(len(dst), vectorAbs, dst, a); i < len(dst); i++ {
		dst[i] = float32(math.Abs(float64(a[i])))
	}
}

// RoundToEven writes each number rounded to the nearest integer, of two the even one; dst may be a.
func RoundToEven(dst, a []float32) {
	for i := list(len(dst), vectorRound, dst, a); i < len(dst); i++ {
		dst[i] = float32(math.RoundToEven(float64(a[i])))
	}
}

// Floor writes the largest integer up to each number; dst may be a.
func Floor(dst, a []float32) {
	for i := list(len(dst), vectorFloor, dst, a); i < len(dst); i++ {
		dst[i] = float32(math.Floor(float64(a[i])))
	}
}

// Ceil writes the smallest integer from each number on; dst may be a.
func Ceil(dst, a []float32) {
	for i := list(len(dst), vectorCeil, dst, a); i < len(dst); i++ {
		dst[i] = float32(math.Ceil(float64(a[i])))
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
	vectorMin
	vectorSqrt
	vectorNeg
	vectorSign
	vectorAbs
	vectorRound
	vectorFloor
	vectorCeil
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

func list(n int, op arithmetic, dst, a []float32) int {
	_ = a[:n]
	if n &^= 7; !available || n == 0 {
		return 0
	}
	op.list(&dst[0], &a[0], n)
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

// Smallest returns the smallest number of x, or ∞ if there is none; it leaves out NaN. Of 0
// and -0 it returns either.
func Smallest(x []float32) float32 {
	least := float32(math.Inf(1))
	if n := len(x) &^ 7; available && n > 0 {
		least = smallestAVX2(&x[0], n)
		x = x[n:]
	}
	for _, v := range x {
		if v < least {
			least = v
		}
	}
	return least
}

// Highest returns the largest number of x, NaN if one is NaN, and -∞ if there is none. 0 is
// larger than -0.
func Highest(x []float32) float32 {
	most := float32(math.Inf(-1))
	if n := len(x) &^ 7; available && n > 0 {
		most = highestAVX2(&x[0], n)
		x = x[n:]
	}
	for _, v := range x {
		most = max(most, v)
	}
	return most
}

// Lowest returns the smallest number of x, NaN if one is NaN, and ∞ if there is none. -0 is
// smaller than 0.
func Lowest(x []float32) float32 {
	least := float32(math.Inf(1))
	if n := len(x) &^ 7; available && n > 0 {
		least = lowestAVX2(&x[0], n)
		x = x[n:]
	}
	for _, v := range x {
		least = min(least, v)
	}
	return least
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

// TransposeBytes is Transpose for bytes.
func TransposeBytes(dst, src *byte, dstStep, srcStep, rows, columns int) {
	at := func(p *byte, i int) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(p), i) }
	wholeRows, wholeColumns := rows&^7, columns&^7
	for c := 0; c < wholeColumns; c += 8 {
		for r := 0; r < wholeRows; r += 8 {
			transposeWords(at(dst, c*dstStep+r), at(src, r*srcStep+c), dstStep, srcStep)
		}
	}
	for r := range rows {
		from := wholeColumns
		if r >= wholeRows {
			from = 0
		}
		for c := from; c < columns; c++ {
			*(*byte)(at(dst, c*dstStep+r)) = *(*byte)(at(src, r*srcStep+c))
		}
	}
}

// transposeWords transposes 8 x 8 bytes in words of 8 bytes: it exchanges halves, then
// quarters, then bytes of pairs of words.
func transposeWords(dst, src unsafe.Pointer, dstStep, srcStep int) {
	const halves, quarters, bytes = 0x00000000ffffffff, 0x0000ffff0000ffff, 0x00ff00ff00ff00ff
	word := func(i int) uint64 {
		return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(src, i*srcStep))[:])
	}
	a0, a1, a2, a3, a4, a5, a6, a7 := word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)
	a0, a4 = a0&halves|a4<<32, a0>>32|a4&^halves
	a1, a5 = a1&halves|a5<<32, a1>>32|a5&^halves
	a2, a6 = a2&halves|a6<<32, a2>>32|a6&^halves
	a3, a7 = a3&halves|a7<<32, a3>>32|a7&^halves
	a0, a2 = a0&quarters|a2&quarters<<16, a0>>16&quarters|a2&^quarters
	a1, a3 = a1&quarters|a3&quarters<<16, a1>>16&quarters|a3&^quarters
	a4, a6 = a4&quarters|a6&quarters<<16, a4>>16&quarters|a6&^quarters
	a5, a7 = a5&quarters|a7&quarters<<16, a5>>16&quarters|a7&^quarters
	a0, a1 = a0&bytes|a1&bytes<<8, a0>>8&bytes|a1&^bytes
	a2, a3 = a2&bytes|a3&bytes<<8, a2>>8&bytes|a3&^bytes
	a4, a5 = a4&bytes|a5&bytes<<8, a4>>8&bytes|a5&^bytes
	a6, a7 = a6&bytes|a7&bytes<<8, a6>>8&bytes|a7&^bytes
	put := func(i int, w uint64) {
		binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(dst, i*dstStep))[:], w)
	}
	put(0, a0)
	put(1, a1)
	put(2, a2)
	put(3, a3)
	put(4, a4)
	put(5, a5)
	put(6, a6)
	put(7, a7)
}
