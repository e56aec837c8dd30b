package vm

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
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
	t.block = nil
	if t.block, err = s.side.take(nameOf(t.name), size); err != nil {
		return aboutTensor(t.name, err)
	}
	t.At = unsafe.Pointer(unsafe.SliceData(t.block))
	return nil
}

// aboutTensor names the tensor that an error is about.
func aboutTensor(name string, err error) error {
	e := graph.Errorf("%w", err)
	e.Tensor = name
	return e
}

// side is the memory of tensors that have no planned place. Blocks that were
// given back are used again; total is the bytes of all that there are.
type side struct {
	mem    *share
	free   [][]byte
	out    map[unsafe.Pointer][]byte // those in use, but for those that stay
	mapped map[unsafe.Pointer]*block // the large ones
	total  int64
	guard  *guard // what gives and takes the blocks of a guarded session
}

// largeBlock is from how many bytes on a block has pages of its own, which the
// system takes back at once.
const largeBlock = 1 << 16

// take gives a block of at least that many bytes: the smallest free one that is
// not more than twice as large, else a new one; what for is for errors about it.
func (p *side) take(what string, bytes int64) ([]byte, error) {
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

func (p *side) find(what string, bytes int64) ([]byte, error) {
	if p.guard != nil {
		g, err := p.guard.take(what, bytes)
		if err != nil {
			return nil, err
		}
		return g.bytes(), nil
	}
	best := -1
	for i, b := range p.free {
		if n := int64(len(b)); n >= bytes && n <= plus(plus(bytes, bytes), 4096) && (best < 0 || n < int64(len(p.free[best]))) {
			best = i
		}
	}
	if best >= 0 {
		b := p.free[best]
		p.free = slices.Delete(p.free, best, best+1)
		return b, nil
	}
	n := max(plus(bytes, 63)&^63, 64)
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
		// Of 8-byte words, so that elements are aligned.
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

// stays exempts a block from being freed after a failed run.
func (p *side) stays(b []byte) { delete(p.out, unsafe.Pointer(unsafe.SliceData(b))) }

// give takes a block back.
func (p *side) give(b []byte) {
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

// reset frees the blocks that a failed run has left: no tensor of the frames has a
// block afterwards.
func (p *side) reset(frames []*frame) {
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

// drop gives the free blocks back to the system.
func (p *side) drop() error {
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

// close gives all blocks back to the system.
func (p *side) close() error {
	var first error
	for _, m := range p.mapped {
		if err := m.free(); err != nil && first == nil {
			first = err
		}
	}
	p.mapped, p.free, p.out = nil, nil, nil
	return first
}
