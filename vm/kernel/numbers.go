package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
)

type floating interface{ float32 | float64 }

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type number interface{ floating | integer }

// reader gives a function that reads element i of a tensor of dtype d as a
// float64.
func reader(d graph.DType) (func(at unsafe.Pointer, i int) float64, bool) {
	switch d {
	case graph.Float32:
		return read[float32], true
	case graph.Float64:
		return read[float64], true
	case graph.Float16:
		return func(at unsafe.Pointer, i int) float64 {
			return float64(HalfToFloat(*(*uint16)(unsafe.Add(at, 2*i))))
		}, true
	case graph.BFloat16:
		return func(at unsafe.Pointer, i int) float64 {
			return float64(math.Float32frombits(uint32(*(*uint16)(unsafe.Add(at, 2*i))) << 16))
		}, true
	case graph.Int64:
		return read[int64], true
	case graph.Int32:
		return read[int32], true
	case graph.Int16:
		return read[int16], true
	case graph.Int8:
		return read[int8], true
	case graph.Uint64:
		return read[uint64], true
	case graph.Uint32:
		return read[uint32], true
	case graph.Uint16:
		return read[uint16], true
	case graph.Uint8, graph.Bool:
		return read[uint8], true
	}
	if f, ok := smallFloats[d]; ok {
		if f.bits < 8 {
			return func(at unsafe.Pointer, i int) float64 { return f.decode(packed(at, i, f.bits)) }, true
		}
		return func(at unsafe.Pointer, i int) float64 { return f.decode(*(*uint8)(unsafe.Add(at, i))) }, true
	}
	if get, ok := intReader(d); ok {
		return func(at unsafe.Pointer, i int) float64 { return float64(get(at, i)) }, true
	}
	return nil, false
}

func read[T number](at unsafe.Pointer, i int) float64 {
	var zero T
	return float64(*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))))
}

// HalfToFloat is a float16 as a float32, exactly.
func HalfToFloat(h uint16) float32 {
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

// FloatToHalf is a float32 rounded to the nearest float16, ties to even.
func FloatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // not a number; keep it one
		return sign | 0x7e00
	case b >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: 2^-24 is the unit
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

// floatToBrain is a float32 rounded to the nearest bfloat16, ties to even.
func floatToBrain(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// realBits is a number as the bits of a floating-point type.
func realBits(d graph.DType, v float64) uint64 {
	switch d {
	case graph.Float64:
		return math.Float64bits(v)
	case graph.Float16:
		return uint64(FloatToHalf(float32(v)))
	case graph.BFloat16:
		return uint64(floatToBrain(float32(v)))
	}
	return uint64(math.Float32bits(float32(v)))
}
