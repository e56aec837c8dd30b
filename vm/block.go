package vm

import (
	"fmt"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// block is memory of a fixed size outside of Go's heap, zeroed. Pages that
// nobody touches take no memory.
type block struct {
	m    mmap.MMap
	base unsafe.Pointer
}

// newBlock takes that many bytes; what for is for the error.
func newBlock(bytes int64, what string) (*block, error) {
	if bytes == 0 {
		bytes = 64
	}
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	m, err := mmap.MapRegion(nil, int(bytes), mmap.RDWR, mmap.ANON, 0)
	if err != nil {
		return nil, fmt.Errorf("%s of %d bytes: %w", what, bytes, err)
	}
	return &block{m, unsafe.Pointer(unsafe.SliceData(m))}, nil
}

// at is the address of byte off.
func (b *block) at(off int64) unsafe.Pointer { return unsafe.Add(b.base, off) }

// free gives the memory back.
func (b *block) free() error {
	if b == nil || b.m == nil {
		return nil
	}
	b.base = nil
	return b.m.Unmap()
}
