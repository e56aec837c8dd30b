package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

type floating interface{ float32 | float64 }

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type number interface{ floating | integer }

// reader returns a function that reads element i of a tensor of dtype d as a float64.
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
