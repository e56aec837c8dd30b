package values

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Value is a value as the caller gives it or gets it: a tensor with its elements row by row, or a
// sequence, an optional or a map.
type Value struct {
	Type    graph.DType // of the elements of a tensor; of a sequence, that of its items
	Shape   []int
	Data    []byte   // the elements of a tensor, little-endian, if they are no strings
	Strings []string // the elements of a tensor of strings
	Kind    graph.Kind
	Items   []Value // of a sequence or optional; of a map, its keys and its values
}

// IsTensor reports whether v is a tensor.
func (v Value) IsTensor() bool { return v.Kind == graph.KindUnknown || v.Kind == graph.KindTensor }

// Is reports whether a value is of a type.
func (v Value) Is(t graph.Type) bool {
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
		if t.Kind == graph.KindSequence && (!item.IsTensor() || item.Type != v.Type) || t.Of != nil && !item.Is(*t.Of) {
			return false
		}
	}
	return true
}

// Check fails unless a tensor has the elements that its type says.
func (v Value) Check() error {
	size, err := SizeOf(v.Type, v.Shape)
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

// Literal returns the elements of a value of integers, bools, float32 or float64.
func (v Value) Literal() graph.Literal {
	d := &graph.Data{Type: v.Type, Raw: v.Data}
	for _, n := range v.Shape {
		d.Dims = append(d.Dims, int64(n))
	}
	return graph.LiteralOf(d)
}

// ValueOf converts a tensor to a value of the caller. Its elements lie in the session's
// memory, except strings.
func (s *Space) ValueOf(t *Tensor) (Value, error) {
	if t.Box != nil {
		return s.boxValue(t.Box)
	}
	s.ToHost(t)
	return s.tensorValue(&t.Tensor)
}

func (s *Space) tensorValue(t *kernel.Tensor) (Value, error) {
	if t.Type != graph.String {
		return Value{Type: t.Type, Shape: t.Shape, Data: unsafe.Slice((*byte)(t.At), t.Bytes())}, nil
	}
	list, err := s.stringsOf(t)
	return Value{Type: t.Type, Shape: slices.Clone(t.Shape), Strings: list}, err
}

func (s *Space) boxValue(b *Box) (Value, error) {
	if b.Kind == graph.KindTensor {
		return s.tensorValue(&b.Tensor)
	}
	v := Value{Kind: b.Kind, Type: b.elem, Items: make([]Value, len(b.Items))}
	for i, item := range b.Items {
		var err error
		if v.Items[i], err = s.boxValue(item); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

// BoxOf makes a box of a value of the caller.
func (s *Space) BoxOf(v Value) (*Box, error) {
	if v.Kind == graph.KindUnknown || v.Kind == graph.KindTensor {
		if err := v.Check(); err != nil {
			return nil, err
		}
		b, err := s.item("an item of an input", v.Type, v.Shape)
		if err != nil {
			return nil, err
		}
		if v.Type == graph.String {
			err = s.StoreTexts(b.Data(), v.Strings)
		} else {
			s.CopyBytes(b.Data(), v.Data)
		}
		if err != nil {
			s.Unbox(b)
		}
		return b, err
	}
	items := make([]*Box, 0, len(v.Items))
	for i := range v.Items {
		b, err := s.BoxOf(v.Items[i])
		if err != nil {
			s.UnboxEach(items)
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items = append(items, b)
	}
	return s.Box(v.Kind, v.Type, items)
}

// fits reports whether a shape matches the declared dimensions and their bounds.
func fits(want []graph.Dim, shape []int) bool {
	if len(want) != len(shape) {
		return false
	}
	for i, d := range want {
		if most, ok := d.Max(); d.Exact() && int(d) != shape[i] || ok && shape[i] > int(most) {
			return false
		}
	}
	return true
}

// Equal reports whether two values are equal, bit for bit.
func (v Value) Equal(w Value) bool {
	return v.Kind == w.Kind && v.Type == w.Type && slices.Equal(v.Shape, w.Shape) && bytes.Equal(v.Data, w.Data) &&
		slices.Equal(v.Strings, w.Strings) && slices.EqualFunc(v.Items, w.Items, Value.Equal)
}

// Clone copies a value, elements included.
func (v Value) Clone() Value {
	w := Value{Type: v.Type, Shape: slices.Clone(v.Shape), Data: slices.Clone(v.Data), Strings: slices.Clone(v.Strings), Kind: v.Kind, Items: slices.Clone(v.Items)}
	for i := range w.Items {
		w.Items[i] = w.Items[i].Clone()
	}
	return w
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

// Reals returns the elements of a tensor as float64, row by row, whatever floats or integers
// they are, or bool (0 and 1); false for strings, complex numbers and other values.
// Element [i, j] of a tensor of shape [n, m] is list[i*m+j]. The list is a copy, which the next
// run leaves as it is. Integers beyond 2^53 are rounded.
func (v Value) Reals() ([]float64, bool) {
	if !v.IsTensor() {
		return nil, false
	}
	t := kernel.Tensor{Type: v.Type, Shape: v.Shape, At: unsafe.Pointer(unsafe.SliceData(v.Data))}
	return t.Reals()
}

// Hash adds a value to a hash.
func (v *Value) Hash(h *maphash.Hash) {
	fmt.Fprintln(h, v.Kind, v.Type, v.Shape, len(v.Items))
	h.Write(v.Data)
	for _, s := range v.Strings {
		fmt.Fprintln(h, len(s), s)
	}
	for i := range v.Items {
		v.Items[i].Hash(h)
	}
}

// Of converts a literal to a value of type d.
func Of(l graph.Literal, d graph.DType) (Value, error) {
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
