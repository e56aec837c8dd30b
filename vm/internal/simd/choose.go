package simd

import "unsafe"

// Relation is a relation of two numbers. Only NotEqual and Unordered hold if one of them is
// NaN.
type Relation int8

// The relations.
const (
	Less Relation = iota
	LessOrEqual
	Equal
	NotEqual
	Unordered // one of them is NaN
)

// Compare writes 1 where a and b are in the relation, else 0. A list of one number stands
// for as many as dst has.
func Compare(dst []uint8, a, b []float32, r Relation) {
	n := 0
	if whole := len(dst) &^ 31; available && whole > 0 {
		var repeated [2][32]float32
		from, aStep := repeat(a, repeated[0][:], len(dst))
		to, bStep := repeat(b, repeated[1][:], len(dst))
		r.lists(&dst[0], from, to, whole, aStep, bStep)
		n = whole
	}
	aStep, bStep := min(len(a)-1, 1), min(len(b)-1, 1)
	for i := n; i < len(dst); i++ {
		dst[i] = 0
		if r.holds(a[i*aStep], b[i*bStep]) {
			dst[i] = 1
		}
	}
}

func (r Relation) holds(a, b float32) bool {
	switch r {
	case Less:
		return a < b
	case LessOrEqual:
		return a <= b
	case NotEqual:
		return a != b
	case Unordered:
		return a != a || b != b
	default:
		return a == b
	}
}

// repeat returns the beginning of a list and the bytes from one vector, or several, to the
// next. A list of one number is written to room, as often as that has places.
func repeat[T float32 | uint32 | uint16](list, room []T, n int) (*T, int) {
	if len(list) >= n && n > 1 {
		return &list[0], int(unsafe.Sizeof(list[0])) * len(room)
	}
	for i := range room {
		room[i] = list[0]
	}
	return &room[0], 0
}

// And writes 1 where both bytes are not 0, else 0; dst may be a or b.
func And(dst, a, b []uint8) {
	n := truths(dst, a, b, andAVX2)
	for i := n; i < len(dst); i++ {
		dst[i] = bit(a[i] != 0 && b[i] != 0)
	}
}

// Or writes 1 where one of the bytes is not 0, else 0; dst may be a or b.
func Or(dst, a, b []uint8) {
	n := truths(dst, a, b, orAVX2)
	for i := n; i < len(dst); i++ {
		dst[i] = bit(a[i] != 0 || b[i] != 0)
	}
}

// Xor writes 1 where one of the bytes is not 0 and the other one is, else 0; dst may be a or b.
func Xor(dst, a, b []uint8) {
	n := truths(dst, a, b, xorAVX2)
	for i := n; i < len(dst); i++ {
		dst[i] = bit((a[i] != 0) != (b[i] != 0))
	}
}

// Not writes 1 where the byte is 0, else 0; dst may be a.
func Not(dst, a []uint8) {
	n := truths(dst, a, a, notAVX2)
	for i := n; i < len(dst); i++ {
		dst[i] = bit(a[i] == 0)
	}
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// truths applies an operation to as many bytes as fill whole vectors, and returns their
// number.
func truths(dst, a, b []uint8, op func(dst, a, b *uint8, n int)) int {
	n := len(dst) &^ 31
	_, _ = a[:len(dst)], b[:len(dst)]
	if !available || n == 0 {
		return 0
	}
	op(&dst[0], &a[0], &b[0], n)
	return n
}

// ChooseReals is Choose of numbers.
func ChooseReals(dst []float32, condition []uint8, a, b []float32) {
	Choose(bitsOf(dst), condition, bitsOf(a), bitsOf(b))
}

// bitsOf is a list of numbers as words.
func bitsOf(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Choose writes a where the condition is not 0, else b; dst may be a or b. A list of one
// number stands for as many as dst has.
func Choose(dst []uint32, condition []uint8, a, b []uint32) {
	n := 0
	condition = condition[:len(dst)]
	if whole := len(dst) &^ 7; available && whole > 0 {
		var repeated [2][8]uint32
		from, aStep := repeat(a, repeated[0][:], len(dst))
		otherwise, bStep := repeat(b, repeated[1][:], len(dst))
		chooseAVX2(&dst[0], &condition[0], from, otherwise, whole, aStep, bStep)
		n = whole
	}
	chooseRest(dst, condition, a, b, n)
}

// Choose16 is Choose for numbers of 16 bits.
func Choose16(dst []uint16, condition []uint8, a, b []uint16) {
	n := 0
	condition = condition[:len(dst)]
	if whole := len(dst) &^ 15; available && whole > 0 {
		var repeated [2][16]uint16
		from, aStep := repeat(a, repeated[0][:], len(dst))
		otherwise, bStep := repeat(b, repeated[1][:], len(dst))
		choose16AVX2(&dst[0], &condition[0], from, otherwise, whole, aStep, bStep)
		n = whole
	}
	chooseRest(dst, condition, a, b, n)
}

// chooseRest chooses the numbers from one on.
func chooseRest[T uint16 | uint32](dst []T, condition []uint8, a, b []T, n int) {
	aStep, bStep := min(len(a)-1, 1), min(len(b)-1, 1)
	for i := n; i < len(dst); i++ {
		if condition[i] != 0 {
			dst[i] = a[i*aStep]
		} else {
			dst[i] = b[i*bStep]
		}
	}
}
