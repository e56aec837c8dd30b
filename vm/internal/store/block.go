package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/edsrzf/mmap-go"
	"github.com/onnxmem/onnxmem/internal/oserr"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// Block is zeroed memory of a fixed size outside of Go's heap. Untouched pages take no
// memory.
type Block struct {
	Bytes mmap.MMap
	Base  unsafe.Pointer
	file  string // the path of the mapped file, if free must remove it; else ""
	Name  string // the path of the mapped file, for errors; "": there is none

	pinned *cuda.Pinned // memory that a device copies by itself; else nil
	Shared bool         // the memory is another's, who frees it
}

// ErrHost is wrapped by the error of a run that can no longer use its host pool.
var ErrHost = errors.New("the host pool can no longer be used")

// Fault returns the error for a fault at an address of the host pool; nil if the
// address lies elsewhere.
func (b *Block) Fault(addr uintptr) error {
	if b == nil || addr-uintptr(b.Base) >= uintptr(len(b.Bytes)) {
		return nil
	}
	if b.Name == "" {
		return fmt.Errorf("%w: byte %d cannot be read or written", ErrHost, addr-uintptr(b.Base))
	}
	return fmt.Errorf("%s: %w: byte %d cannot be read or written (is the disk full, or was the file truncated?)", b.Name, ErrHost, addr-uintptr(b.Base))
}

// NewBlock allocates a block; what names its purpose in errors.
func NewBlock(bytes int64, what string) (*Block, error) {
	if bytes == 0 {
		bytes = 64
	}
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	m, err := mmap.MapRegion(nil, int(bytes), anonymous, mmap.ANON, 0)
	if err != nil {
		return nil, fmt.Errorf("%s of %d bytes: %w", what, bytes, err)
	}
	return &Block{Bytes: m, Base: unsafe.Pointer(unsafe.SliceData(m))}, nil
}

// NewHostBlock allocates the host pool, in ordinary memory or in a new file at path.
func NewHostBlock(path string, bytes int64) (*Block, error) {
	const what = "host pool"
	if path == "" {
		return NewBlock(bytes, what)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s: exists already: expected the path of a new file for the %s", path, what)
	}
	dir := filepath.Dir(path)
	if err != nil {
		if folder := oserr.Folder(dir); folder != nil {
			err = folder
		}
		return nil, fmt.Errorf("%s: cannot be made for the %s: %w", path, what, oserr.Writing(dir, err))
	}
	b := &Block{file: path, Name: path}
	// If the system can remove an open file, nothing is left of it however the process
	// ends; otherwise (Windows) free removes it.
	if os.Remove(path) == nil {
		b.file = ""
	}
	if err = reserve(f, bytes); err == nil {
		b.Bytes, err = mmap.MapRegion(f, int(bytes), mmap.RDWR, 0, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil { // the mapping stays
		err = fmt.Errorf("%s: cannot hold the %s of %s: %w", path, what, units.Bytes(bytes), oserr.Writing(dir, err))
		return nil, errors.Join(err, b.Free())
	}
	b.Base = unsafe.Pointer(unsafe.SliceData(b.Bytes))
	return b, nil
}

// NewPinnedBlock allocates the host pool in memory that a device copies by itself. It needs
// the device's context, and so does free.
func NewPinnedBlock(d *cuda.Device, bytes int64) (*Block, error) {
	p, err := d.Pin(bytes, "host pool")
	if err != nil {
		return nil, err
	}
	return &Block{Bytes: p.Data, Base: unsafe.Pointer(unsafe.SliceData(p.Data)), pinned: p}, nil
}

// At is the address of byte off.
func (b *Block) At(off int64) unsafe.Pointer { return unsafe.Add(b.Base, off) }

// Free frees the memory and removes the file.
func (b *Block) Free() error {
	if b == nil || b.Shared {
		return nil
	}
	var first error
	if b.Bytes != nil {
		b.Base = nil
		if b.pinned != nil {
			b.Bytes = nil
			first = b.pinned.Free()
		} else {
			first = b.Bytes.Unmap()
		}
	}
	if b.file != "" {
		if err := os.Remove(b.file); err != nil && first == nil {
			first = err
		}
		b.file = ""
	}
	return first
}
