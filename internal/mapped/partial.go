package mapped

import (
	"io"
	"sync"
	"unsafe"
)

// Partial is a file that is read when its bytes are needed, where files cannot be mapped: in a
// browser. Bytes has the length of the file; those that were not loaded are 0. The memory of
// pages that were never written is not taken from the system.
type Partial struct {
	Bytes []byte

	r    io.ReaderAt
	mu   sync.Mutex
	have []uint64 // a bit for each block that was loaded
}

// partBytes is the size of a block. A read of a file in a browser takes a tenth of a
// millisecond or more, whatever its size.
const partBytes = 16 << 10

// partials holds the files that are read when needed.
var partials struct {
	sync.Mutex
	list []*Partial
}

// NewPartial returns a file of that size. Close forgets it.
func NewPartial(r io.ReaderAt, size int64) *Partial {
	p := &Partial{Bytes: make([]byte, size), r: r, have: make([]uint64, (size/partBytes+64)/64)}
	partials.Lock()
	defer partials.Unlock()
	partials.list = append(partials.list, p)
	return p
}

// Close forgets the file. Its bytes must not be used afterwards.
func (p *Partial) Close() {
	partials.Lock()
	defer partials.Unlock()
	for i, q := range partials.list {
		if q == p {
			partials.list = append(partials.list[:i], partials.list[i+1:]...)
			break
		}
	}
	p.Bytes = nil
}

// Load reads the bytes from off to before end, and those around them in their blocks.
func (p *Partial) Load(off, end int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := int64(len(p.Bytes))
	end = min(end, size)
	for b := off / partBytes; b*partBytes < end; b++ {
		if p.has(b) {
			continue
		}
		last := b // of the blocks that are missing together
		for (last+1)*partBytes < end && !p.has(last+1) {
			last++
		}
		from, to := b*partBytes, min((last+1)*partBytes, size)
		if n, err := p.r.ReadAt(p.Bytes[from:to], from); int64(n) < to-from {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		for ; b <= last; b++ {
			p.have[b/64] |= 1 << (b % 64)
		}
	}
	return nil
}

func (p *Partial) has(block int64) bool { return p.have[block/64]>>(block%64)&1 != 0 }

// Loaded is the number of bytes that were read.
func (p *Partial) Loaded() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range (int64(len(p.Bytes)) + partBytes - 1) / partBytes {
		if p.has(b) {
			n += partBytes
		}
	}
	return min(n, int64(len(p.Bytes)))
}

// Load reads the bytes of b, if they lie in a file that is read when needed.
func Load(b []byte) error {
	partials.Lock()
	list := partials.list
	partials.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, p := range list {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(p.Bytes)))
		if off := at - base; off < uintptr(len(p.Bytes)) {
			return p.Load(int64(off), int64(off)+int64(len(b)))
		}
	}
	return nil
}
