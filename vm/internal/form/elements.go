package form

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type number interface{ float32 | float64 | integer }

// IntReader returns a function that reads element i of an integer tensor.
func IntReader(d graph.DType) (func(at unsafe.Pointer, i int) int64, bool) {
	switch d {
	case graph.Int64, graph.Uint64:
		return readInt[int64], true
	case graph.Int32:
		return readInt[int32], true
	case graph.Int16:
		return readInt[int16], true
	case graph.Int8:
		return readInt[int8], true
	case graph.Uint32:
		return readInt[uint32], true
	case graph.Uint16:
		return readInt[uint16], true
	case graph.Uint8:
		return readInt[uint8], true
	case graph.Bool:
		return func(at unsafe.Pointer, i int) int64 {
			if *(*uint8)(unsafe.Add(at, i)) != 0 {
				return 1
			}
			return 0
		}, true
	case graph.Int4:
		return func(at unsafe.Pointer, i int) int64 { return int64(int8(Packed(at, i, 4)<<4) >> 4) }, true
	case graph.Uint4:
		return func(at unsafe.Pointer, i int) int64 { return int64(Packed(at, i, 4)) }, true
	case graph.Int2:
		return func(at unsafe.Pointer, i int) int64 { return int64(int8(Packed(at, i, 2)<<6) >> 6) }, true
	case graph.Uint2:
		return func(at unsafe.Pointer, i int) int64 { return int64(Packed(at, i, 2)) }, true
	}
	return nil, false
}

func readInt[T integer](at unsafe.Pointer, i int) int64 {
	var zero T
	return int64(*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))))
}

// Packed returns element i of a type of 2, 4 or 8 bits. The first element of a byte lies
// in its low bits.
func Packed(at unsafe.Pointer, i, bits int) uint8 {
	per := 8 / bits
	return *(*uint8)(unsafe.Add(at, i/per)) >> (i % per * bits) & (1<<bits - 1)
}

// PutPacked writes element i of a type of 2 or 4 bits. The elements of a byte must be
// written in order: the first clears the rest of the byte, so that the bits after the
// last element do not depend on the previous content.
func PutPacked(at unsafe.Pointer, i, bits int, v uint8) {
	per := 8 / bits
	b := (*uint8)(unsafe.Add(at, i/per))
	shift := i % per * bits
	*b = *b&(1<<shift-1) | v&(1<<bits-1)<<shift
}

// IntWriter returns a function that writes element i of an integer tensor. Values out
// of range wrap around.
func IntWriter(d graph.DType) (func(at unsafe.Pointer, i int, v int64), bool) {
	switch d {
	case graph.Int64, graph.Uint64:
		return writeInt[int64], true
	case graph.Int32, graph.Uint32:
		return writeInt[int32], true
	case graph.Int16, graph.Uint16:
		return writeInt[int16], true
	case graph.Int8, graph.Uint8:
		return writeInt[int8], true
	case graph.Bool:
		return func(at unsafe.Pointer, i int, v int64) { *(*bool)(unsafe.Add(at, i)) = v != 0 }, true
	case graph.Int4, graph.Uint4:
		return func(at unsafe.Pointer, i int, v int64) { PutPacked(at, i, 4, uint8(v)) }, true
	case graph.Int2, graph.Uint2:
		return func(at unsafe.Pointer, i int, v int64) { PutPacked(at, i, 2, uint8(v)) }, true
	}
	return nil, false
}

func writeInt[T integer](at unsafe.Pointer, i int, v int64) {
	var zero T
	*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))) = T(v)
}

// Truncated32 cuts a real towards 0. NaN and numbers out of range become the least integer, as
// with x86's instruction on every processor; Go leaves the result to the processor. One
// comparison of the bits of the number's size finds NaN, infinities and all that is 2^31 or
// larger; the least integer itself is among them.
func Truncated32(v float64) int32 {
	if math.Float64bits(v)&math.MaxInt64 < (1023+31)<<52 {
		return int32(v)
	}
	return math.MinInt32
}

// Truncated64 is truncated32 for 64 bits.
func Truncated64(v float64) int64 {
	if math.Float64bits(v)&math.MaxInt64 < (1023+63)<<52 {
		return int64(v)
	}
	return math.MinInt64
}

// truncatedUnsigned is truncated64 for unsigned integers: negative numbers wrap around, NaN becomes
// 2^63, and numbers from 2^64 on become 0.
func truncatedUnsigned(v float64) uint64 {
	if v >= 1<<63 {
		return uint64(Truncated64(v-1<<63)) ^ 1<<63
	}
	return uint64(Truncated64(v))
}

// Writer returns a function that writes element i of a tensor of any numeric dtype. It
// truncates reals towards zero for integers. For integers out of range it gives what ONNX
// Runtime gives on x86. Up to 32 bits they are the low bits of an int32; unsigned ones of 32
// bits are those of an int64. (There its vectors give other results than what remains beside
// them.)
func Writer(d graph.DType) (func(at unsafe.Pointer, i int, v float64), bool) {
	switch d {
	case graph.Float32:
		return func(at unsafe.Pointer, i int, v float64) { *(*float32)(unsafe.Add(at, 4*i)) = float32(v) }, true
	case graph.Float64:
		return func(at unsafe.Pointer, i int, v float64) { *(*float64)(unsafe.Add(at, 8*i)) = v }, true
	case graph.Float16:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint16)(unsafe.Add(at, 2*i)) = FloatToHalf(float32(v)) }, true
	case graph.BFloat16:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint16)(unsafe.Add(at, 2*i)) = simd.ToBrain(float32(v)) }, true
	case graph.Bool:
		return func(at unsafe.Pointer, i int, v float64) { *(*bool)(unsafe.Add(at, i)) = v != 0 }, true
	case graph.Uint64:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint64)(unsafe.Add(at, 8*i)) = truncatedUnsigned(v) }, true
	}
	if f, ok := smallFloats[d]; ok {
		return f.writer(true), true
	}
	set, ok := IntWriter(d)
	if !ok {
		return nil, false
	}
	if d == graph.Int64 || d == graph.Uint32 {
		return func(at unsafe.Pointer, i int, v float64) { set(at, i, Truncated64(v)) }, true
	}
	return func(at unsafe.Pointer, i int, v float64) { set(at, i, int64(Truncated32(v))) }, true
}

// HalfToFloat converts a float16 to a float32, exactly.
func HalfToFloat(h uint16) float32 { return simd.FromHalf(h) }

// FloatToHalf rounds a float32 to the nearest float16, ties to even.
func FloatToHalf(f float32) uint16 { return simd.ToHalf(f) }

// Reader returns a function that reads element i of a tensor of dtype d as a float64.
func Reader(d graph.DType) (func(at unsafe.Pointer, i int) float64, bool) {
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
	case graph.Uint8:
		return read[uint8], true
	case graph.Bool: // every byte but 0 is true
		return func(at unsafe.Pointer, i int) float64 {
			if *(*uint8)(unsafe.Add(at, i)) != 0 {
				return 1
			}
			return 0
		}, true
	}
	if f, ok := smallFloats[d]; ok {
		if f.bits < 8 {
			return func(at unsafe.Pointer, i int) float64 { return f.decode(Packed(at, i, f.bits)) }, true
		}
		return func(at unsafe.Pointer, i int) float64 { return f.decode(*(*uint8)(unsafe.Add(at, i))) }, true
	}
	if get, ok := IntReader(d); ok {
		return func(at unsafe.Pointer, i int) float64 { return float64(get(at, i)) }, true
	}
	return nil, false
}

func read[T number](at unsafe.Pointer, i int) float64 {
	var zero T
	return float64(*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))))
}

// realBits returns the bits of a number in a floating-point type.
func realBits(d graph.DType, v float64) uint64 {
	switch d {
	case graph.Float64:
		return math.Float64bits(v)
	case graph.Float16:
		return uint64(FloatToHalf(float32(v)))
	case graph.BFloat16:
		return uint64(simd.ToBrain(float32(v)))
	}
	return uint64(math.Float32bits(float32(v)))
}
