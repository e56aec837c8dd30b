package vm

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Filled returns a value for a graph input, with all elements x.
func Filled(t graph.Tensor, x float64) (Value, error) {
	v, err := Random(t, 0)
	if err != nil {
		return v, err
	}
	return v, (&kernel.Tensor{Type: v.Type, Shape: v.Shape, At: unsafe.Pointer(unsafe.SliceData(v.Data))}).Fill(x)
}

// Random returns a random value for a graph input: reals in [-1, 1), integers 0 or 1
// (valid indices for most tables), and bools all true. The same seed gives the same
// value.
func Random(t graph.Tensor, seed uint64) (Value, error) {
	if !t.Type.Exact() {
		return Value{}, fmt.Errorf("is %v: no random value for it: give one", t.Type)
	}
	v := Value{Type: t.Type.Elem, Shape: []int{}}
	n := 1
	for _, d := range t.Type.Shape {
		v.Shape = append(v.Shape, int(d))
		n *= int(d)
	}
	size, err := values.SizeOf(v.Type, v.Shape)
	if err != nil {
		return Value{}, err
	}
	v.Data = make([]byte, 0, size)
	draw := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	for range n {
		switch x := 2*draw.Float64() - 1; v.Type {
		case graph.Float32:
			v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(x)))
		case graph.Float64:
			v.Data = binary.LittleEndian.AppendUint64(v.Data, math.Float64bits(x))
		case graph.Float16:
			v.Data = binary.LittleEndian.AppendUint16(v.Data, form.FloatToHalf(float32(x)))
		case graph.Bool:
			v.Data = append(v.Data, 1)
		default:
			if !v.Type.Integer() || v.Type.Bits() < 8 {
				return Value{}, fmt.Errorf("is %v: no random value for it: give one", t.Type)
			}
			var b [8]byte
			b[0] = byte(draw.IntN(2))
			v.Data = append(v.Data, b[:v.Type.Bits()/8]...)
		}
	}
	return v, nil
}
