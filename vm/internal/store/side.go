package store

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
)

// SidePool is the memory of tensors that have no planned place. It reuses freed
// blocks. After a run it knows what runs take from it, and gives the next ones places in
// one arena (see replay).
type SidePool struct {
	Mem    *Share
	free   [][]byte
	out    map[unsafe.Pointer][]byte // blocks in use, whole: a failed run frees them
	held   map[unsafe.Pointer][]byte // blocks that runs keep, whole
	mapped map[unsafe.Pointer]*Block // the large blocks
	Total  int64                     // bytes of all blocks, free or in use, and of the replay's arena
	Guard  *Guard                    // allocates the blocks of a guarded session; else nil
	replay *replay                   // nil: runs are not recorded
}

// LargeBlock is the least size in bytes of a block that is mapped on its own pages,
// which the system gets back as soon as the block is freed.
const LargeBlock = 1 << 16

// Take returns a block of the given bytes, rounded up. what names its purpose in errors,
// and tells one block of a run from another.
func (p *SidePool) Take(what string, bytes int64) ([]byte, error) {
	if p.Guard != nil {
		return p.guarded(what, bytes)
	}
	n := roundSide(bytes)
	b, entry := p.replay.place(what, n)
	if b == nil {
		whole, err := p.find(what, n)
		if err != nil {
			return nil, err
		}
		if p.out == nil {
			p.out = map[unsafe.Pointer][]byte{}
		}
		b = whole[:n]
		p.out[unsafe.Pointer(unsafe.SliceData(b))] = whole
	}
	p.replay.took(what, b, entry)
	return b, nil
}

// Hold returns a block that stays in use after the run, until it is given back. A failed
// run does not free it.
func (p *SidePool) Hold(what string, bytes int64) ([]byte, error) {
	if p.Guard != nil {
		b, err := p.guarded(what, bytes)
		if err == nil {
			delete(p.out, unsafe.Pointer(unsafe.SliceData(b)))
		}
		return b, err
	}
	n := roundSide(bytes)
	whole, err := p.find(what, n)
	if err != nil {
		return nil, err
	}
	if p.held == nil {
		p.held = map[unsafe.Pointer][]byte{}
	}
	p.held[unsafe.Pointer(unsafe.SliceData(whole))] = whole
	return whole[:n], nil
}

// roundSide rounds the size of a block up to whole cache lines.
func roundSide(bytes int64) int64 { return max(units.Add(bytes, 63)&^63, 64) }

func (p *SidePool) guarded(what string, bytes int64) ([]byte, error) {
	g, err := p.Guard.Take(what, bytes)
	if err != nil {
		return nil, err
	}
	if p.out == nil {
		p.out = map[unsafe.Pointer][]byte{}
	}
	b := g.Bytes()
	p.out[unsafe.Pointer(unsafe.SliceData(b))] = b
	return b, nil
}

// find returns the smallest free block that is large enough and not more than twice as
// large, else a new one.
func (p *SidePool) find(what string, n int64) ([]byte, error) {
	best := -1
	for i, b := range p.free {
		if has := int64(len(b)); has >= n && has <= units.Add(units.Add(n, n), 4096) && (best < 0 || has < int64(len(p.free[best]))) {
			best = i
		}
	}
	if best >= 0 {
		b := p.free[best]
		p.free = slices.Delete(p.free, best, best+1)
		return b, nil
	}
	err := p.Mem.Take(n)
	if err != nil && len(p.free) > 0 {
		if err = p.drop(); err == nil {
			err = p.Mem.Take(n)
		}
	}
	if err != nil && p.replay.idle() {
		if err = p.replay.forget(); err == nil {
			err = p.Mem.Take(n)
		}
	}
	if err != nil {
		return nil, err
	}
	if n < LargeBlock {
		p.Total += n
		// A slice of 8-byte words aligns the elements.
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8)))), n), nil
	}
	m, err := NewBlock(n, what)
	if err != nil {
		p.Mem.Give(n)
		return nil, err
	}
	p.Total += n
	if p.mapped == nil {
		p.mapped = map[unsafe.Pointer]*Block{}
	}
	p.mapped[m.Base] = m
	return m.Bytes, nil
}

// Give returns a block to the pool.
func (p *SidePool) Give(b []byte) {
	if b == nil {
		return
	}
	at := unsafe.Pointer(unsafe.SliceData(b))
	if p.Guard != nil {
		delete(p.out, at)
		p.Guard.GiveBytes(b)
		return
	}
	if p.replay.gave(at) {
		return
	}
	whole, is := p.out[at]
	if is {
		delete(p.out, at)
	} else {
		whole = p.held[at]
		delete(p.held, at)
	}
	p.free = append(p.free, whole)
}

// Reset frees the blocks that a failed run left in use.
func (p *SidePool) Reset() {
	for _, b := range p.out {
		p.Give(b)
	}
	p.replay.fail()
}

// Records makes the pool record its runs from now on.
func (p *SidePool) Records() { p.replay = &replay{pool: p} }

// Begin begins a run, which is recorded if the pool does so.
func (p *SidePool) Begin() error { return p.replay.begin() }

// End ends a run that went to its end.
func (p *SidePool) End() { p.replay.end() }

// Lasts reports whether a block of the last run is still in use; any reports whether one is.
func (p *SidePool) Lasts(b []byte) bool { return p.replay.lasts(b) }

func (p *SidePool) Any() bool { return p.replay.any() }

// Use says how blocks were placed so far.
func (p *SidePool) Use() Use {
	if p.replay == nil {
		return Use{}
	}
	return p.replay.use
}

// drop returns the free blocks to the system.
func (p *SidePool) drop() error {
	var first error
	for _, b := range p.free {
		n := int64(len(b))
		if m := p.mapped[unsafe.Pointer(unsafe.SliceData(b))]; m != nil {
			delete(p.mapped, m.Base)
			if err := m.Free(); err != nil && first == nil {
				first = err
			}
		}
		p.Total -= n
		p.Mem.Give(n)
	}
	p.free = nil
	return first
}

// Close returns all blocks to the system.
func (p *SidePool) Close() error {
	first := p.replay.forget()
	for _, m := range p.mapped {
		if err := m.Free(); err != nil && first == nil {
			first = err
		}
	}
	p.mapped, p.free, p.out, p.held = nil, nil, nil, nil
	return first
}
