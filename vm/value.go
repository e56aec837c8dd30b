package vm

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Value is a tensor of the caller: its elements, row by row, little-endian.
type Value struct {
	Type  graph.DType
	Shape []int
	Data  []byte
}

// Float32s returns a value with the given elements, row by row; without a shape, it is
// a scalar. It copies the elements, and panics if their number does not fit the shape.
func Float32s(numbers []float32, shape ...int) Value {
	v := sized(graph.Float32, 4, len(numbers), shape)
	for _, x := range numbers {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(x))
	}
	return v
}

// Int64s is like Float32s for integers.
func Int64s(numbers []int64, shape ...int) Value {
	v := sized(graph.Int64, 8, len(numbers), shape)
	for _, x := range numbers {
		v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(x))
	}
	return v
}

// sized returns a value with capacity for its elements.
func sized(d graph.DType, width, count int, shape []int) Value {
	want := 1
	for _, n := range shape {
		want *= n
	}
	if count != want {
		panic(fmt.Sprintf("vm: %d elements, expected %d for shape %v", count, want, shape))
	}
	return Value{Type: d, Shape: append([]int{}, shape...), Data: make([]byte, 0, width*count)}
}

// Clone copies a value, elements included.
func (v Value) Clone() Value {
	return Value{v.Type, slices.Clone(v.Shape), slices.Clone(v.Data)}
}

// String returns the value's type, such as float32[1,3,224,224].
func (v Value) String() string {
	dims := make([]graph.Dim, len(v.Shape))
	for i, n := range v.Shape {
		dims[i] = graph.Dim(n)
	}
	return graph.TensorOf(v.Type, dims...).String()
}

// sizeOf returns the bytes of a tensor. It fails if they overflow or if the dtype has
// no fixed size.
func sizeOf(d graph.DType, shape []int) (int64, error) {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: expected lengths >= 0", shape)
		}
		dims[i] = graph.Dim(n)
	}
	bytes, _, ok, err := graph.TensorOf(d, dims...).Size()
	if err == nil && !ok {
		err = fmt.Errorf("%v has no fixed size", d)
	}
	return bytes, err
}

// ParseTensor decodes a TensorProto. Errors call it name.
func ParseTensor(name string, b []byte) (Value, error) {
	d, err := onnx.ParseTensor(name, b)
	if err != nil {
		return Value{}, err
	}
	if d.External != nil {
		return Value{}, fmt.Errorf("%s: its elements lie in another file: expected them here", name)
	}
	c := newConstants(&graph.Model{Source: &graph.Source{Name: name, Bytes: b}}, &account{})
	t, err := c.tensor(d, bound{})
	if err != nil {
		return Value{}, err
	}
	return Value{t.Type, t.Shape, unsafe.Slice((*byte)(t.At), t.Bytes())}, nil
}

// Tensor encodes a value as a TensorProto of the given name, which [ParseTensor]
// reads.
func (v Value) Tensor(name string) []byte {
	d := graph.Data{Name: name, Type: v.Type, Raw: v.Data}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	return onnx.EncodeTensor(&d)
}

// valueOf converts a literal to a value of type d.
func valueOf(l graph.Literal, d graph.DType) (Value, error) {
	t, err := l.Tensor("", d)
	if err != nil {
		return Value{}, err
	}
	v := Value{Type: d, Shape: make([]int, len(t.Dims)), Data: t.Raw}
	for i, n := range t.Dims {
		v.Shape[i] = int(n)
	}
	return v, nil
}

// Literal returns the elements of a value of integers, bools, float32 or float64.
func (v Value) Literal() graph.Literal {
	d := &graph.Data{Type: v.Type, Raw: v.Data}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	return graph.LiteralOf(d)
}

// Reals returns the elements of a numeric value; false for other dtypes.
func (v Value) Reals() ([]float64, bool) {
	t := kernel.Tensor{Type: v.Type, Shape: v.Shape, At: unsafe.Pointer(unsafe.SliceData(v.Data))}
	return t.Reals()
}
