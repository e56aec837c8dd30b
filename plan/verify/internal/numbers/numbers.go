// Package numbers writes small constants as the elements of tensors. It shares no code with the planner,
// so that what a plan stores is compared with what another program makes of the same numbers.
package numbers

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// List is a small constant: integers, or numbers.
type List struct {
	Ints   []int64
	Floats []float64
}

// String prints the numbers.
func (l *List) String() string {
	if l.Floats != nil {
		return fmt.Sprint(l.Floats)
	}
	return fmt.Sprint(l.Ints)
}

// Bytes are the elements as those of a type; nil if there is no such form.
func (l *List) Bytes(elem graph.DType) (b []byte) {
	for _, v := range l.Ints {
		switch elem {
		case graph.Int64:
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case graph.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case graph.Bool:
			b = append(b, byte(v))
		default:
			return nil
		}
	}
	for _, v := range l.Floats {
		switch elem {
		case graph.Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case graph.Float64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case graph.Float16:
			b = binary.LittleEndian.AppendUint16(b, half(v))
		case graph.BFloat16:
			b = binary.LittleEndian.AppendUint16(b, brain(v))
		default:
			return nil
		}
	}
	return b
}

// brain rounds a float32 to bfloat16, to even.
func brain(v float64) uint16 {
	b := math.Float32bits(float32(v))
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// half rounds to float16, to even.
func half(v float64) uint16 {
	sign := uint16(math.Float64bits(v) >> 48 & 0x8000)
	v = math.Abs(v)
	switch {
	case v >= 65520:
		return sign | 0x7c00
	case v < 0x1p-14:
		return sign | uint16(math.RoundToEven(v*0x1p24)) // 1024 is the code of the least normal number, too
	}
	e := math.Ilogb(v)
	return sign | uint16(e+14)<<10 + uint16(math.RoundToEven(math.Ldexp(v, 10-e)))
}
