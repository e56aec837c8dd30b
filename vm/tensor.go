package vm

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// tensor is a tensor of a frame: the kernels' view of it, and its storage.
type tensor struct {
	kernel.Tensor
	name      string
	room      int64          // bytes of its planned place; 0: it goes to the side pool
	block     []byte         // of the side pool
	box       *box           // its value, if that is no tensor; else nil
	quantized *quantized     // how it holds bytes instead of reals; nil: it does not
	guarded   *store.Guarded // its pages in a guarded session; nil in the side pool

	readUntil int32 // the last step at which a chain reads it, maybe after its last reader
	exact     bool  // its shape is known before the run
	inside    bool  // of a session on a device: it exists only within a kernel
	where     where // of a session on a device: where its elements are
}

// resize gives a tensor its actual shape, in its planned place or in the side pool.
func (s *Session) resize(t *tensor, shape []int) error {
	size, err := sizeOf(t.Type, shape)
	if err != nil {
		return err
	}
	if t.exact && !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("tensor %q turns out to be of shape %v, expected %v", graph.Short(t.name), shape, t.Shape)
	}
	t.Shape = append(t.Shape[:0], shape...)
	if t.Shape == nil {
		t.Shape = []int{}
	}
	if t.room > 0 {
		if size > t.room {
			return fmt.Errorf("tensor %q turns out to have %d bytes, but was planned for at most %d", graph.Short(t.name), size, t.room)
		}
		if t.guarded != nil {
			t.At = t.guarded.Resize(size)
		}
		return nil
	}
	s.release(t)
	if t.block, err = s.mem.Side.Take(nameOf(t.name), size); err != nil {
		return aboutTensor(t.name, err)
	}
	t.At = unsafe.Pointer(unsafe.SliceData(t.block))
	return nil
}

// aboutTensor wraps an error with the name of a tensor.
func aboutTensor(name string, err error) error {
	e := graph.Errorf("%w", err)
	e.Tensor = name
	return e
}
