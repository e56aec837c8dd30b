package vm

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// tensor is a tensor of a frame: the kernels' view of it, and its storage.
type tensor struct {
	kernel.Tensor
	name  string
	exact bool   // its shape is known before the run
	room  int64  // bytes of its planned place; 0: it goes to the side pool
	block []byte // of the side pool
	box   *box   // its value, if that is no tensor; else nil

	quantized *quantized // how it holds bytes instead of reals; nil: it does not

	guarded *guarded // its pages in a guarded session; nil in the side pool

	where  where // of a session on a device: where its elements are
	inside bool  // of a session on a device: it exists only within a kernel
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
			t.At = t.guarded.resize(size)
		}
		return nil
	}
	s.release(t)
	if t.block, err = s.side.take(nameOf(t.name), size); err != nil {
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

// sidePool is the memory of tensors that have no planned place. It reuses freed
// blocks.
type sidePool struct {
	mem    *share
	free   [][]byte
	out    map[unsafe.Pointer][]byte // blocks in use that a failed run frees
	mapped map[unsafe.Pointer]*block // the large blocks
	total  int64                     // bytes of all blocks, free or in use
	guard  *guard                    // allocates the blocks of a guarded session; else nil
}

// largeBlock is the least size in bytes of a block that is mapped on its own pages,
// which the system gets back as soon as the block is freed.
const largeBlock = 1 << 16

// take returns a block of at least the given bytes: the smallest free block that is
// not more than twice as large, else a new one. what names its purpose in errors.
func (p *sidePool) take(what string, bytes int64) ([]byte, error) {
	b, err := p.find(what, bytes)
	if err != nil {
		return nil, err
	}
	if p.out == nil {
		p.out = map[unsafe.Pointer][]byte{}
	}
	p.out[unsafe.Pointer(unsafe.SliceData(b))] = b
	return b, nil
}

func (p *sidePool) find(what string, bytes int64) ([]byte, error) {
	if p.guard != nil {
		g, err := p.guard.take(what, bytes)
		if err != nil {
			return nil, err
		}
		return g.bytes(), nil
	}
	best := -1
	for i, b := range p.free {
		if n := int64(len(b)); n >= bytes && n <= units.Add(units.Add(bytes, bytes), 4096) && (best < 0 || n < int64(len(p.free[best]))) {
			best = i
		}
	}
	if best >= 0 {
		b := p.free[best]
		p.free = slices.Delete(p.free, best, best+1)
		return b, nil
	}
	n := max(units.Add(bytes, 63)&^63, 64)
	err := p.mem.take(n)
	if err != nil && len(p.free) > 0 {
		if err = p.drop(); err == nil {
			err = p.mem.take(n)
		}
	}
	if err != nil {
		return nil, err
	}
	if n < largeBlock {
		p.total += n
		// A slice of 8-byte words aligns the elements.
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8)))), n), nil
	}
	m, err := newBlock(n, what)
	if err != nil {
		p.mem.give(n)
		return nil, err
	}
	p.total += n
	if p.mapped == nil {
		p.mapped = map[unsafe.Pointer]*block{}
	}
	p.mapped[m.base] = m
	return m.m, nil
}

// keep exempts a block from being freed after a failed run.
func (p *sidePool) keep(b []byte) { delete(p.out, unsafe.Pointer(unsafe.SliceData(b))) }

// give returns a block to the pool.
func (p *sidePool) give(b []byte) {
	if b == nil {
		return
	}
	delete(p.out, unsafe.Pointer(unsafe.SliceData(b)))
	if p.guard != nil {
		p.guard.giveBytes(b)
	} else {
		p.free = append(p.free, b)
	}
}

// reset frees the blocks that a failed run left in use. No tensor of the frames has a
// block afterwards.
func (p *sidePool) reset(frames []*frame) {
	for _, f := range frames {
		for _, t := range f.tensors {
			if t != nil && t.block != nil {
				p.give(t.block)
				t.block = nil
			}
		}
	}
	for _, b := range p.out {
		p.give(b)
	}
}

// drop returns the free blocks to the system.
func (p *sidePool) drop() error {
	var first error
	for _, b := range p.free {
		n := int64(len(b))
		if m := p.mapped[unsafe.Pointer(unsafe.SliceData(b))]; m != nil {
			delete(p.mapped, m.base)
			if err := m.free(); err != nil && first == nil {
				first = err
			}
		}
		p.total -= n
		p.mem.give(n)
	}
	p.free = nil
	return first
}

// close returns all blocks to the system.
func (p *sidePool) close() error {
	var first error
	for _, m := range p.mapped {
		if err := m.free(); err != nil && first == nil {
			first = err
		}
	}
	p.mapped, p.free, p.out = nil, nil, nil
	return first
}
