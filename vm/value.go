package vm

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
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
	return outer(v.inner().Clone())
}

// String returns the value's type, such as float32[1,3,224,224].
func (v Value) String() string { return v.inner().String() }

// Bytes is the memory of the elements of a value, and of its items.
func (v Value) Bytes() int64 { return v.inner().Bytes() }

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
		v.Strings, err = constants.Texts(source, d)
		return v, err
	}
	c := constants.New(&graph.Model{Source: source}, &store.Account{Explain: limitError})
	t, err := c.Tensor(d, store.Bound{})
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

// Literal returns the elements of a value of integers, bools, float32 or float64.
func (v Value) Literal() graph.Literal {
	return v.inner().Literal()
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
func (v Value) Reals() ([]float64, bool) { return v.inner().Reals() }

// inner is the value as the rooms below this package have it. Data, shapes and strings are shared.
func (v Value) inner() values.Value {
	w := values.Value{Type: v.Type, Shape: v.Shape, Data: v.Data, Strings: v.Strings, Kind: v.Kind}
	if v.Items != nil {
		w.Items = make([]values.Value, len(v.Items))
	}
	for i := range v.Items {
		w.Items[i] = v.Items[i].inner()
	}
	return w
}

// outer is the reverse of [Value.inner].
func outer(v values.Value) Value {
	w := Value{Type: v.Type, Shape: v.Shape, Data: v.Data, Strings: v.Strings, Kind: v.Kind}
	if v.Items != nil {
		w.Items = make([]Value, len(v.Items))
	}
	for i := range v.Items {
		w.Items[i] = outer(v.Items[i])
	}
	return w
}

// inner is [Value.inner] of the inputs of a run.
func inner(inputs map[string]Value) map[string]values.Value {
	list := make(map[string]values.Value, len(inputs))
	for name, v := range inputs {
		list[name] = v.inner()
	}
	return list
}

// innerRuns is inner of several runs.
func innerRuns(runs []map[string]Value) []map[string]values.Value {
	list := make([]map[string]values.Value, len(runs))
	for i, inputs := range runs {
		list[i] = inner(inputs)
	}
	return list
}
