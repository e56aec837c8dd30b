package vm

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/kernel"
)

// tensor is a tensor of a frame: as kernels see it, and its place.
type tensor struct {
	kernel.Tensor
	name  string
	exact bool   // its shape is known before the data are there
	room  int64  // bytes of its place; 0 in the side pool
	block []byte // of the side pool

	guarded *guarded // the pages that it has in a guarded session, where it has room
}

// resize gives a tensor the shape that it turned out to have: within its planned
// place, or in the side pool.
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
			t.At = t.guarded.resize(size)
		}
		return nil
	}
	s.side.give(t.block)
	t.block = s.side.take(nameOf(t.name), size)
	t.At = unsafe.Pointer(unsafe.SliceData(t.block))
	return nil
}

// side is the memory of tensors that have no planned place. Blocks that were
// given back are used again; total is the bytes of all that were ever made.
type side struct {
	free  [][]byte
	total int64
	guard *guard // what gives and takes the blocks of a guarded session
}

// take gives a block of at least that many bytes: the smallest free one that is
// not more than twice as large, else a new one; what for is for errors about it.
func (p *side) take(what string, bytes int64) []byte {
	if p.guard != nil {
		g, err := p.guard.take(what, bytes)
		if err != nil {
			panic(err)
		}
		return g.bytes()
	}
	best := -1
	for i, b := range p.free {
		if n := int64(len(b)); n >= bytes && n <= 2*bytes+4096 && (best < 0 || n < int64(len(p.free[best]))) {
			best = i
		}
	}
	if best >= 0 {
		b := p.free[best]
		p.free = slices.Delete(p.free, best, best+1)
		return b
	}
	n := max((bytes+63)&^63, 64)
	p.total += n
	// Of 8-byte words, so that elements are aligned.
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8)))), n)
}

// give takes a block back.
func (p *side) give(b []byte) {
	if p.guard != nil {
		p.guard.giveBytes(b)
	} else if b != nil {
		p.free = append(p.free, b)
	}
}
