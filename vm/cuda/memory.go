package cuda

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Block is device memory.
type Block struct {
	At    driver.Ptr
	Bytes int64
}

// Take allocates device memory; what names its purpose in errors. It needs the
// context.
func (d *Device) Take(bytes int64, what string) (*Block, error) {
	p, err := driver.Alloc(max(bytes, 256))
	if err != nil {
		free, total, _ := driver.MemInfo()
		return nil, fmt.Errorf("%s of %s on %s, where %s of %s are free: %w", what, units.Bytes(bytes), d.name, units.Short(free), units.Short(total), err)
	}
	return &Block{p, bytes}, nil
}

// Free frees a block; nil is freed already. It needs the context.
func (b *Block) Free() error {
	if b == nil || b.At == 0 {
		return nil
	}
	at := b.At
	b.At = 0
	return driver.Free(at)
}

// Pinned is host memory that the device copies from and to by itself.
type Pinned struct{ Data []byte }

// Pin allocates pinned host memory; what names its purpose in errors. It needs the
// context.
func (d *Device) Pin(bytes int64, what string) (*Pinned, error) {
	p, err := driver.AllocHost(max(bytes, 64))
	if err != nil {
		return nil, fmt.Errorf("%s of %s in pinned memory: %w", what, units.Bytes(bytes), err)
	}
	return &Pinned{unsafe.Slice((*byte)(p), bytes)}, nil
}

// Free frees pinned memory; nil is freed already. It needs the context.
func (p *Pinned) Free() error {
	if p == nil || p.Data == nil {
		return nil
	}
	at := unsafe.Pointer(unsafe.SliceData(p.Data))
	p.Data = nil
	return driver.FreeHost(at)
}
