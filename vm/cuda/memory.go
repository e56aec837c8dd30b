package cuda

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// ErrOutOfMemory is what errors.Is finds in the error of Take and Pin where there is no room.
var ErrOutOfMemory = driver.ErrOutOfMemory

// Block is device memory.
type Block struct {
	At    driver.Ptr
	Bytes int64
	Taken int64 // bytes that the driver took for it (Device.Measure)
}

// Measure calls f and returns the device memory that it took, as the driver says: by how
// many bytes less is free afterwards. The driver takes memory in pages of up to 2 MiB, of
// which several small blocks may share one, and what other processes take meanwhile counts,
// too. It needs the context.
func (d *Device) Measure(f func() error) (takenBytes int64, err error) {
	before, _, unknown := driver.MemInfo()
	if err := f(); err != nil || unknown != nil {
		return 0, err
	}
	after, _, unknown := driver.MemInfo()
	if unknown != nil {
		return 0, nil
	}
	return max(before-after, 0), nil
}

// Take allocates device memory; what names its purpose in errors. It needs the
// context.
func (d *Device) Take(bytes int64, what string) (*Block, error) {
	var p driver.Ptr
	taken, err := d.Measure(func() (err error) {
		p, err = driver.Alloc(max(bytes, 256))
		return err
	})
	if err != nil {
		free, total, _ := driver.MemInfo()
		return nil, fmt.Errorf("%s of %s on %s, where %s of %s are free: %w", what, units.Bytes(bytes), d.name, units.Short(free), units.Short(total), err)
	}
	return &Block{p, bytes, taken}, nil
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
