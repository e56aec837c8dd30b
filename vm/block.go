package vm

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

// block is zeroed memory of a fixed size outside of Go's heap. Untouched pages take no
// memory.
type block struct {
	m    mmap.MMap
	base unsafe.Pointer
	file string // the path of the mapped file, if free must remove it; else ""
	name string // the path of the mapped file, for errors; "": there is none

	pinned *cuda.Pinned // memory that a device copies by itself; else nil
	shared bool         // the memory is another's, who frees it
}

// ErrHost is wrapped by the error of a run that can no longer use its host pool.
var ErrHost = errors.New("the host pool can no longer be used")

// fault returns the error for a fault at an address of the host pool; nil if the
// address lies elsewhere.
func (b *block) fault(addr uintptr) error {
	if b == nil || addr-uintptr(b.base) >= uintptr(len(b.m)) {
		return nil
	}
	if b.name == "" {
		return fmt.Errorf("%w: byte %d cannot be read or written", ErrHost, addr-uintptr(b.base))
	}
	return fmt.Errorf("%s: %w: byte %d cannot be read or written (is the disk full, or was the file truncated?)", b.name, ErrHost, addr-uintptr(b.base))
}

// newBlock allocates a block; what names its purpose in errors.
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
	return &block{m: m, base: unsafe.Pointer(unsafe.SliceData(m))}, nil
}

// newHostBlock allocates the host pool, in ordinary memory or in a new file at path.
func newHostBlock(path string, bytes int64) (*block, error) {
	const what = "host pool"
	if path == "" {
		return newBlock(bytes, what)
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
	b := &block{file: path, name: path}
	// If the system can remove an open file, nothing is left of it however the process
	// ends; otherwise (Windows) free removes it.
	if os.Remove(path) == nil {
		b.file = ""
	}
	if err = reserve(f, bytes); err == nil {
		b.m, err = mmap.MapRegion(f, int(bytes), mmap.RDWR, 0, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil { // the mapping stays
		err = fmt.Errorf("%s: cannot hold the %s of %s: %w", path, what, units.Bytes(bytes), oserr.Writing(dir, err))
		return nil, errors.Join(err, b.free())
	}
	b.base = unsafe.Pointer(unsafe.SliceData(b.m))
	return b, nil
}

// newPinnedBlock allocates the host pool in memory that a device copies by itself. It needs
// the device's context, and so does free.
func newPinnedBlock(d *cuda.Device, bytes int64) (*block, error) {
	p, err := d.Pin(bytes, "host pool")
	if err != nil {
		return nil, err
	}
	return &block{m: p.Data, base: unsafe.Pointer(unsafe.SliceData(p.Data)), pinned: p}, nil
}

// at is the address of byte off.
func (b *block) at(off int64) unsafe.Pointer { return unsafe.Add(b.base, off) }

// free frees the memory and removes the file.
func (b *block) free() error {
	if b == nil || b.shared {
		return nil
	}
	var first error
	if b.m != nil {
		b.base = nil
		if b.pinned != nil {
			b.m = nil
			first = b.pinned.Free()
		} else {
			first = b.m.Unmap()
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
