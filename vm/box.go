package vm

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// box is a value that is no tensor, or an item of one. Boxes never change once they are
// made, so sequences share their items; the last reference frees an item's memory, which
// lies in the side pool.
type box struct {
	kind   graph.Kind  // KindTensor, KindSequence, KindOptional or KindMap
	elem   graph.DType // of a sequence: the type of its items; Undefined: not known
	tensor kernel.Tensor
	block  []byte // of the tensor
	items  []*box // of a sequence or optional; of a map: its keys and its values
	refs   int
}

// boxed are the values of a session that are no bytes of a tensor: boxes, and strings.
type boxed struct {
	texts texts
	bytes int64                          // of boxes, without their blocks
	words map[*graph.Data]*kernel.Tensor // constants that are strings
}

// boxBytes is the memory of a box without its block and its items.
const boxBytes = 160

func (b *box) bytes() int64 { return boxBytes + 8*int64(len(b.items)) }

// box makes a box of items, to which it takes over the caller's references, also if it
// fails.
func (s *Session) box(kind graph.Kind, elem graph.DType, items []*box) (*box, error) {
	b := &box{kind: kind, elem: elem, items: items, refs: 1}
	if err := s.mem.Take(b.bytes()); err != nil {
		s.unboxEach(items)
		return nil, err
	}
	s.boxed.bytes += b.bytes()
	return b, nil
}

// item makes a box for a tensor, whose elements the caller fills in.
func (s *Session) item(what string, d graph.DType, shape []int) (*box, error) {
	size, err := sizeOf(d, shape)
	if err != nil {
		return nil, err
	}
	b, err := s.box(graph.KindTensor, d, nil)
	if err != nil {
		return nil, err
	}
	if b.block, err = s.mem.Side.Take(what, size); err != nil {
		s.unbox(b)
		return nil, err
	}
	b.tensor = kernel.Tensor{Type: d, Shape: append([]int{}, shape...), At: unsafe.Pointer(unsafe.SliceData(b.block))}
	return b, nil
}

// itemOf returns a reference to a box of a tensor's value.
func (s *Session) itemOf(t *tensor) (*box, error) {
	if t.box != nil {
		return t.box.shared(), nil
	}
	if t.Type == graph.Undefined || t.Shape == nil {
		return nil, fmt.Errorf("tensor %q has no value", graph.Short(t.name))
	}
	b, err := s.item("an item", t.Type, t.Shape)
	if err != nil {
		return nil, aboutTensor(t.name, err)
	}
	s.onHost(t)
	s.copyBytes(b.data(), bytesOf(t))
	return b, nil
}

// shared returns one more reference to a box.
func (b *box) shared() *box {
	b.refs++
	return b
}

// unbox drops a reference.
func (s *Session) unbox(b *box) {
	if b == nil {
		return
	}
	if b.refs--; b.refs > 0 {
		return
	}
	s.mem.Side.Give(b.block)
	s.mem.Give(b.bytes())
	s.boxed.bytes -= b.bytes()
	s.unboxEach(b.items)
}

// unboxEach drops a reference to each of some boxes.
func (s *Session) unboxEach(list []*box) {
	for _, b := range list {
		s.unbox(b)
	}
}

// unboxAll drops the boxes of a failed run, whose blocks the side pool has freed.
func (s *Session) unboxAll() {
	for _, f := range s.frames {
		for _, t := range f.tensors {
			if t != nil {
				t.box = nil
			}
		}
	}
	s.mem.Give(s.boxed.bytes)
	s.boxed.bytes = 0
}

// data returns the bytes of the elements of a box that holds a tensor.
func (b *box) data() []byte { return unsafe.Slice((*byte)(b.tensor.At), b.tensor.Bytes()) }

// put makes a box the value of a tensor, which takes over the reference.
func (s *Session) put(t *tensor, b *box) error {
	if b.kind != graph.KindTensor {
		if t.room > 0 || t.exact {
			s.unbox(b)
			return fmt.Errorf("tensor %q turns out to be %v, expected %v", graph.Short(t.name), b.kind, typeOf(t))
		}
		s.unbox(t.box)
		t.box = b
		return nil
	}
	err := s.assign(t, &tensor{Tensor: b.tensor, name: t.name})
	s.unbox(b)
	return err
}

// typed returns the type of a box for ops.Check.
func (b *box) typed() graph.Type {
	switch b.kind {
	case graph.KindTensor:
		return typeOf(&tensor{Tensor: b.tensor})
	case graph.KindMap:
		return graph.Type{Kind: graph.KindMap}
	}
	t := graph.Type{Kind: b.kind}
	switch {
	case len(b.items) > 0 && b.kind == graph.KindOptional:
		of := b.items[0].typed()
		t.Of = &of
	case b.elem != graph.Undefined:
		t.Of = &graph.Type{Kind: graph.KindTensor, Elem: b.elem}
	}
	return t
}

// value converts a tensor to a value of the caller. Its elements lie in the session's
// memory, except strings.
func (s *Session) value(t *tensor) (Value, error) {
	if t.box != nil {
		return s.boxValue(t.box)
	}
	s.onHost(t)
	return s.tensorValue(&t.Tensor)
}

func (s *Session) tensorValue(t *kernel.Tensor) (Value, error) {
	if t.Type != graph.String {
		return Value{Type: t.Type, Shape: t.Shape, Data: unsafe.Slice((*byte)(t.At), t.Bytes())}, nil
	}
	list, err := s.stringsOf(t)
	return Value{Type: t.Type, Shape: slices.Clone(t.Shape), Strings: list}, err
}

func (s *Session) boxValue(b *box) (Value, error) {
	if b.kind == graph.KindTensor {
		return s.tensorValue(&b.tensor)
	}
	v := Value{Kind: b.kind, Type: b.elem, Items: make([]Value, len(b.items))}
	for i, item := range b.items {
		var err error
		if v.Items[i], err = s.boxValue(item); err != nil {
			return Value{}, err
		}
	}
	return v, nil
}

// boxOf makes a box of a value of the caller.
func (s *Session) boxOf(v Value) (*box, error) {
	if v.Kind == graph.KindUnknown || v.Kind == graph.KindTensor {
		if err := v.check(); err != nil {
			return nil, err
		}
		b, err := s.item("an item of an input", v.Type, v.Shape)
		if err != nil {
			return nil, err
		}
		if v.Type == graph.String {
			err = s.store(b.data(), v.Strings)
		} else {
			s.copyBytes(b.data(), v.Data)
		}
		if err != nil {
			s.unbox(b)
		}
		return b, err
	}
	items := make([]*box, 0, len(v.Items))
	for i := range v.Items {
		b, err := s.boxOf(v.Items[i])
		if err != nil {
			s.unboxEach(items)
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items = append(items, b)
	}
	return s.box(v.Kind, v.Type, items)
}
