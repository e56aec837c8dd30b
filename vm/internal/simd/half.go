package simd

import (
	"math"
	"unsafe"
)

// Narrow is a 16-bit floating-point type.
type Narrow int8

// The types.
const (
	Float16 Narrow = iota
	BFloat16
)

// Widen converts the numbers of src to float32.
func Widen(dst []float32, src []uint16, from Narrow) {
	dst = dst[:len(src)]
	if len(src) > 0 {
		WidenRows(&dst[0], &src[0], 1, len(src), 0, 0, from)
	}
}

// WidenRows is Widen for rows that are steps apart, in elements. It reads and writes
// nothing beyond their columns.
func WidenRows(dst *float32, src *uint16, rows, columns, dstStep, srcStep int, from Narrow) {
	whole := 0
	if available16 && rows > 0 && columns >= 8 {
		whole = columns &^ 7
		switch {
		case rows == 1:
			widen16(dst, src, whole, from)
		case from == BFloat16:
			brainsAVX2(dst, src, rows, whole, 4*dstStep, 2*srcStep)
		default:
			halvesF16C(dst, src, rows, whole, 4*dstStep, 2*srcStep)
		}
	}
	if whole == columns || whole > 0 { // the last vector overlaps the one before
		if rest := columns - 8; whole < columns {
			WidenRows((*float32)(unsafe.Add(unsafe.Pointer(dst), 4*rest)), (*uint16)(unsafe.Add(unsafe.Pointer(src), 2*rest)), rows, 8, dstStep, srcStep, from)
		}
		return
	}
	for r := range rows {
		d := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), 4*r*dstStep)), columns)[whole:]
		for i, h := range unsafe.Slice((*uint16)(unsafe.Add(unsafe.Pointer(src), 2*r*srcStep)), columns)[whole:] {
			d[i] = from.widen(h)
		}
	}
}

// Round rounds the numbers of src to the nearest number of a type, ties to even.
func Round(dst []uint16, src []float32, to Narrow) {
	dst = dst[:len(src)]
	whole := 0
	if available16 && len(src) >= 8 {
		whole = len(src) &^ 7
		round16(&dst[0], &src[0], whole, to)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = to.round(x)
	}
}

// RoundWide rounds the numbers of src as Round does, and keeps them in float32; dst may be src.
func RoundWide(dst, src []float32, to Narrow) {
	dst = dst[:len(src)]
	whole := 0
	if available16 && len(src) >= 8 {
		whole = len(src) &^ 7
		roundWide16(&dst[0], &src[0], whole, to)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = to.widen(to.round(x))
	}
}

// RoundAndAdd rounds the numbers of dst as RoundWide does, and adds those of src, in float32.
func RoundAndAdd(dst []float32, src []uint16, as Narrow) {
	src = src[:len(dst)]
	whole := 0
	if available16 && wide >= 16 && len(dst) >= 16 {
		whole = len(dst) &^ 15
		join16(&dst[0], &src[0], whole, as)
	}
	var terms [256]float32
	for from := whole; from < len(dst); from += len(terms) {
		some := dst[from:min(from+len(terms), len(dst))]
		RoundWide(some, some, as)
		Widen(terms[:len(some)], src[from:from+len(some)], as)
		Add(some, some, terms[:len(some)])
	}
}

// Wide is the number of a type in float32.
func (n Narrow) Wide(h uint16) float32 { return n.widen(h) }

func (n Narrow) widen(h uint16) float32 {
	if n == BFloat16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	return FromHalf(h)
}

func (n Narrow) round(f float32) uint16 {
	if n == BFloat16 {
		return ToBrain(f)
	}
	return ToHalf(f)
}

// FromHalf converts a float16 to a float32, exactly.
func FromHalf(h uint16) float32 {
	sign, exp, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch {
	case exp == 31:
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	case exp > 0:
		return math.Float32frombits(sign | (exp+112)<<23 | fraction<<13)
	}
	v := float32(fraction) / (1 << 24)
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// ToHalf rounds a float32 to the nearest float16, ties to even.
func ToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: make it quiet and keep its upper bits
		return sign | 0x7e00 | uint16(b>>13&0x1ff)
	case b >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: the unit is 2^-24
		shift := 126 - b>>23
		if shift > 24 {
			return sign
		}
		m := b&0x7fffff | 0x800000
		v := m >> shift
		rest, half := m&(1<<shift-1), uint32(1)<<(shift-1)
		if rest > half || rest == half && v&1 == 1 {
			v++
		}
		return sign | uint16(v)
	}
	v := b + 0xfff + b>>13&1
	return sign | uint16((v-0x38000000)>>13)
}

// ToBrain rounds a float32 to the nearest bfloat16, ties to even.
func ToBrain(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
