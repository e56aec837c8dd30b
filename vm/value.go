package vm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Value is a value of the caller: a tensor with its elements row by row, or a sequence, an
// optional or a map.
type Value struct {
	Type    graph.DType // of the elements of a tensor; of a sequence, that of its items
	Shape   []int
	Data    []byte   // the elements of a tensor, little-endian, if they are no strings
	Strings []string // the elements of a tensor of strings

	// Kind is KindSequence, KindOptional or KindMap; of a tensor, it may be left out.
	Kind graph.Kind
	// Items are the items of a sequence, or none or one of an optional. Of a map they are its
	// keys [k] and its values: [k], or [n k] for a sequence of n maps with the same keys,
	// which is what ZipMap makes.
	Items []Value
}

// Texts returns a value of strings, row by row; without a shape, it is a scalar. It
// panics if their number does not fit the shape.
func Texts(list []string, shape ...int) Value {
	v := sized(graph.String, 0, len(list), shape)
	v.Data, v.Strings = nil, slices.Clone(list)
	return v
}

// IsTensor reports whether v is a tensor.
func (v Value) IsTensor() bool { return v.Kind == graph.KindUnknown || v.Kind == graph.KindTensor }

// is reports whether a value is of a type.
func (v Value) is(t graph.Type) bool {
	switch {
	case t.Kind == graph.KindTensor:
		return v.IsTensor() && v.Type == t.Elem && (!t.Ranked || fits(t.Shape, v.Shape))
	case t.Kind != v.Kind || t.Kind == graph.KindSequence && t.Of != nil && t.Of.Kind == graph.KindTensor && v.Type != t.Of.Elem && (len(v.Items) > 0 || v.Type != graph.Undefined):
		return false
	case t.Kind == graph.KindMap:
		return len(v.Items) == 2 && v.Items[0].IsTensor() && v.Items[1].IsTensor() && len(v.Items[0].Shape) == 1 && slices.Equal(v.Items[0].Shape, v.Items[1].Shape)
	case t.Kind == graph.KindOptional && len(v.Items) > 1 || t.Kind != graph.KindOptional && t.Kind != graph.KindSequence:
		return false
	}
	for i := range v.Items {
		item := &v.Items[i]
		if t.Kind == graph.KindSequence && (!item.IsTensor() || item.Type != v.Type) || t.Of != nil && !item.is(*t.Of) {
			return false
		}
	}
	return true
}

// check fails unless a tensor has the elements that its type says.
func (v Value) check() error {
	size, err := sizeOf(v.Type, v.Shape)
	switch n := int64(len(v.Strings)); {
	case err != nil:
		return err
	case v.Type == graph.String && 8*n != size:
		return fmt.Errorf("has %d strings, expected %d for %v", n, size/8, v)
	case v.Type != graph.String && size != int64(len(v.Data)):
		return fmt.Errorf("has %d bytes of elements, expected %d for %v", len(v.Data), size, v)
	}
	return nil
}

// equal reports whether two values are equal, bit for bit.
func (v Value) equal(w Value) bool {
	return v.Kind == w.Kind && v.Type == w.Type && slices.Equal(v.Shape, w.Shape) && bytes.Equal(v.Data, w.Data) &&
		slices.Equal(v.Strings, w.Strings) && slices.EqualFunc(v.Items, w.Items, Value.equal)
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
	w := Value{Type: v.Type, Shape: slices.Clone(v.Shape), Data: slices.Clone(v.Data), Strings: slices.Clone(v.Strings), Kind: v.Kind, Items: slices.Clone(v.Items)}
	for i := range w.Items {
		w.Items[i] = w.Items[i].Clone()
	}
	return w
}

// String returns the value's type, such as float32[1,3,224,224].
func (v Value) String() string {
	if !v.IsTensor() {
		return v.described()
	}
	dims := make([]graph.Dim, len(v.Shape))
	for i, n := range v.Shape {
		dims[i] = graph.Dim(n)
	}
	return graph.TensorOf(v.Type, dims...).String()
}

// Bytes is the memory of the elements of a value, and of its items.
func (v Value) Bytes() int64 {
	sum := int64(len(v.Data))
	for _, s := range v.Strings {
		sum += int64(unsafe.Sizeof(s)) + int64(len(s))
	}
	for i := range v.Items {
		sum += int64(unsafe.Sizeof(v)) + v.Items[i].Bytes()
	}
	return sum
}

// described is String for values that are no tensors.
func (v Value) described() string {
	switch {
	case v.Kind == graph.KindMap && len(v.Items) == 2:
		return fmt.Sprintf("map(%v: %v)", v.Items[0], v.Items[1])
	case len(v.Items) == 0 && v.Type != graph.Undefined:
		return fmt.Sprintf("empty %v of %v", v.Kind, v.Type)
	case len(v.Items) == 0:
		return fmt.Sprintf("empty %v", v.Kind)
	case len(v.Items) == 1:
		return fmt.Sprintf("%v(%v)", v.Kind, v.Items[0])
	}
	return fmt.Sprintf("%v(%v, …: %d items)", v.Kind, v.Items[0], len(v.Items))
}

// sizeOf returns the bytes of a tensor in a session. It fails if they overflow or if the
// dtype has no fixed size.
func sizeOf(d graph.DType, shape []int) (int64, error) {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: expected lengths >= 0", shape)
		}
		dims[i] = graph.Dim(n)
	}
	bytes, _, ok, err := graph.TensorOf(d, dims...).Size()
	if err == nil && !ok && d == graph.String {
		n, err := elementsIn(shape)
		return 8 * n, err
	}
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
	source := &graph.Source{Name: name, Bytes: b}
	if d.Type == graph.String {
		v := Value{Type: d.Type, Shape: make([]int, len(d.Dims))}
		for i, n := range d.Dims {
			v.Shape[i] = int(n)
		}
		v.Strings, err = textsOf(source, d)
		return v, err
	}
	c := newConstants(&graph.Model{Source: source}, newAccount())
	t, err := c.tensor(d, store.Bound{})
	if err != nil {
		return Value{}, err
	}
	return Value{Type: t.Type, Shape: t.Shape, Data: unsafe.Slice((*byte)(t.At), t.Bytes())}, nil
}

// Tensor encodes a value as a TensorProto of the given name, which [ParseTensor]
// reads.
func (v Value) Tensor(name string) []byte {
	d := graph.Data{Name: name, Type: v.Type, Raw: v.Data}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	if v.Type == graph.String {
		return onnx.EncodeStrings(&d, v.Strings)
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

// Reals returns the elements of a tensor as float64, row by row, whatever floats or integers
// they are, or bool (0 and 1); false for strings, complex numbers and other values.
// Element [i, j] of a tensor of shape [n, m] is list[i*m+j]. The list is a copy, which the next
// run leaves as it is. Integers beyond 2^53 are rounded.
//
//	out, err := session.Run(ctx, inputs)
//	...
//	scores, ok := out["scores"].Reals() // float16 or float32: the same call
//	if !ok {
//		return fmt.Errorf("scores are no numbers: %v", out["scores"])
//	}
//	columns := out["scores"].Shape[1]
//	first := scores[:columns] // the scores of the first row
func (v Value) Reals() ([]float64, bool) {
	if !v.IsTensor() {
		return nil, false
	}
	t := kernel.Tensor{Type: v.Type, Shape: v.Shape, At: unsafe.Pointer(unsafe.SliceData(v.Data))}
	return t.Reals()
}
