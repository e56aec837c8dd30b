package values

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Space is the memory in which the tensors of a session, and what else they hold, get their places
// at run time.
type Space struct {
	Mem    store.Store
	Pool   *work.Pool // copies large tensors, and polls for a stop
	Device Device     // nil: none
	Texts  Texts
	Words  map[*graph.Data]*kernel.Tensor // constants that are strings

	boxBytes int64 // of boxes, without their blocks
}

// Device is the other memory that a tensor may lie in.
type Device interface {
	// Down brings the elements of tensors to the host, and waits for them.
	Down(list ...*Tensor) error
	// Assign copies a tensor from one place on the device to another; false: the host has to.
	Assign(to, from *Tensor) (bool, error)
}

// Resize gives a tensor its actual shape, in its planned place or in the side pool.
func (s *Space) Resize(t *Tensor, shape []int) error {
	size, err := SizeOf(t.Type, shape)
	if err != nil {
		return err
	}
	if t.Exact && !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("tensor %q turns out to be of shape %v, expected %v", graph.Short(t.Name), shape, t.Shape)
	}
	t.Shape = append(t.Shape[:0], shape...)
	if t.Shape == nil {
		t.Shape = []int{}
	}
	if t.Room > 0 {
		if size > t.Room {
			return fmt.Errorf("tensor %q turns out to have %d bytes, but was planned for at most %d", graph.Short(t.Name), size, t.Room)
		}
		if t.Guarded != nil {
			t.At = t.Guarded.Resize(size)
		}
		return nil
	}
	s.Release(t)
	if t.Block, err = s.Mem.Side.Take(NameOf(t.Name), size); err != nil {
		return About(t.Name, err)
	}
	t.At = unsafe.Pointer(unsafe.SliceData(t.Block))
	return nil
}

// Box makes a box of items, to which it takes over the caller's references, also if it
// fails.
func (s *Space) Box(kind graph.Kind, elem graph.DType, items []*Box) (*Box, error) {
	b := &Box{Kind: kind, elem: elem, Items: items, refs: 1}
	if err := s.Mem.Take(b.bytes()); err != nil {
		s.UnboxEach(items)
		return nil, err
	}
	s.boxBytes += b.bytes()
	return b, nil
}

// item makes a box for a tensor, whose elements the caller fills in.
func (s *Space) item(what string, d graph.DType, shape []int) (*Box, error) {
	size, err := SizeOf(d, shape)
	if err != nil {
		return nil, err
	}
	b, err := s.Box(graph.KindTensor, d, nil)
	if err != nil {
		return nil, err
	}
	if b.block, err = s.Mem.Side.Take(what, size); err != nil {
		s.Unbox(b)
		return nil, err
	}
	b.Tensor = kernel.Tensor{Type: d, Shape: append([]int{}, shape...), At: unsafe.Pointer(unsafe.SliceData(b.block))}
	return b, nil
}

// ItemOf returns a reference to a box of a tensor's value.
func (s *Space) ItemOf(t *Tensor) (*Box, error) {
	if t.Box != nil {
		return t.Box.Shared(), nil
	}
	if t.Type == graph.Undefined || t.Shape == nil {
		return nil, fmt.Errorf("tensor %q has no value", graph.Short(t.Name))
	}
	b, err := s.item("an item", t.Type, t.Shape)
	if err != nil {
		return nil, About(t.Name, err)
	}
	s.ToHost(t)
	s.CopyBytes(b.Data(), BytesOf(t))
	return b, nil
}

// Unbox drops a reference.
func (s *Space) Unbox(b *Box) {
	if b == nil {
		return
	}
	if b.refs--; b.refs > 0 {
		return
	}
	s.Mem.Side.Give(b.block)
	s.Mem.Give(b.bytes())
	s.boxBytes -= b.bytes()
	s.UnboxEach(b.Items)
}

// UnboxEach drops a reference to each of some boxes.
func (s *Space) UnboxEach(list []*Box) {
	for _, b := range list {
		s.Unbox(b)
	}
}

// Put makes a box the value of a tensor, which takes over the reference.
func (s *Space) Put(t *Tensor, b *Box) error {
	if b.Kind != graph.KindTensor {
		if t.Room > 0 || t.Exact {
			s.Unbox(b)
			return fmt.Errorf("tensor %q turns out to be %v, expected %v", graph.Short(t.Name), b.Kind, TypeOf(t))
		}
		s.Unbox(t.Box)
		t.Box = b
		return nil
	}
	err := s.Assign(t, &Tensor{Tensor: b.Tensor, Name: t.Name})
	s.Unbox(b)
	return err
}

// Assign copies a tensor: type, shape and elements. Values that are no tensors are shared.
func (s *Space) Assign(to, from *Tensor) error {
	switch {
	case to == from:
		return nil
	case from.Box != nil:
		return s.Put(to, from.Box.Shared())
	case from.Type == graph.Undefined || from.Shape == nil:
		return fmt.Errorf("tensor %q has no value", graph.Short(from.Name))
	}
	s.Unbox(to.Box)
	to.Box = nil
	if err := to.Takes(from); err != nil {
		return err
	}
	if err := s.Resize(to, from.Shape); err != nil {
		return err
	}
	if s.Device != nil {
		if done, err := s.Device.Assign(to, from); done || err != nil {
			return err
		}
	}
	if to.At != from.At {
		s.ToHost(from)
		s.CopyBytes(BytesOf(to), BytesOf(from))
		s.WroteOnHost(to)
	} else {
		to.Where = from.Where
	}
	return nil
}

// Takes checks that a tensor can hold from's elements; a tensor without a dtype gets
// from's dtype.
func (t *Tensor) Takes(from *Tensor) error {
	if t.Type == graph.Undefined {
		t.Type = from.Type
	}
	if t.Type != from.Type {
		return fmt.Errorf("tensor %q turns out to be of %v, expected %v", graph.Short(t.Name), from.Type, t.Type)
	}
	return nil
}

// Truth is the element of a tensor that must be a single bool.
func (t *Tensor) Truth() (bool, error) {
	if t.Type != graph.Bool || t.Shape == nil || t.Len() != 1 {
		return false, fmt.Errorf("tensor %q turns out to be %v, expected one bool", graph.Short(t.Name), TypeOf(t))
	}
	return *(*uint8)(t.At) != 0, nil
}

// BytesOf returns the bytes of a tensor's elements, in place.
func BytesOf(t *Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

// Release frees the memory of a dynamic tensor.
func (s *Space) Release(t *Tensor) {
	s.Mem.Side.Give(t.Block)
	t.Block = nil
	s.Unbox(t.Box)
	t.Box = nil
}

// StoreTexts writes the elements that stand for strings.
func (s *Space) StoreTexts(b []byte, list []string) error {
	for i, text := range list {
		e, err := s.Texts.Element(text)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b[8*i:], e)
	}
	return nil
}

// stringsOf returns the strings of a tensor, in a list that counts until the next run.
func (s *Space) stringsOf(t *kernel.Tensor) ([]string, error) {
	bytes := int64(unsafe.Sizeof("")) * int64(t.Len())
	if err := s.Mem.Take(bytes); err != nil {
		return nil, err
	}
	s.Texts.lists += bytes
	list := make([]string, t.Len())
	for i, e := range unsafe.Slice((*uint64)(t.At), len(list)) {
		var err error
		if list[i], err = s.Texts.Text(e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// CopyBytes copies bytes, polling for a stop if they are many.
func (s *Space) CopyBytes(to, from []byte) {
	s.Pool.Steps(min(len(to), len(from)), func(i, j int) { copy(to[i:j], from[i:j]) })
}

// Memory says in which memory the elements of a tensor are.
type Memory uint8

const (
	OnHost Memory = 1 << iota
	OnDevice
)

// DeviceError is the panic of a copy between the memories that failed.
type DeviceError struct{ Err error }

// ToHost brings the elements of a tensor to the host, where they are read next. It
// panics with a deviceError.
func (s *Space) ToHost(list ...*Tensor) {
	if s.Device == nil {
		return
	}
	if err := s.Device.Down(list...); err != nil {
		panic(DeviceError{err})
	}
}

// WroteOnHost notes that the elements of a tensor were written on the host. Copies of
// what was there must have been done: onHost waits for them.
func (s *Space) WroteOnHost(t *Tensor) {
	if s.Device != nil {
		t.Where = OnHost
	}
}

// ForgetBoxes uncounts all boxes: no tensor has one any more.
func (s *Space) ForgetBoxes() {
	s.Mem.Give(s.boxBytes)
	s.boxBytes = 0
}
