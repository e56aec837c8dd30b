package pages

import (
	"fmt"
	"unsafe"
)

// Room is address space whose first bytes can be made accessible, more and more of them.
// The rest takes no memory, and nothing of what may be allocated either, so it may be larger than
// the machine's memory.
type Room struct {
	m    []byte
	open int // bytes that are accessible, whole pages
}

// Reserve reserves address space for the given number of bytes.
func Reserve(bytes int64) (*Room, error) {
	whole := (max(bytes, 1) + int64(Size) - 1) &^ (int64(Size) - 1)
	if int64(int(whole)) != whole || whole < bytes {
		return nil, fmt.Errorf("%d bytes: more than this machine can address", bytes)
	}
	m, err := reserve(int(whole))
	if err != nil {
		return nil, fmt.Errorf("address space for %d bytes: %w", bytes, err)
	}
	return &Room{m: m}, nil
}

// Open makes at least the first bytes accessible. They are 0 at first.
func (r *Room) Open(bytes int64) error {
	if bytes > int64(len(r.m)) {
		return fmt.Errorf("%d bytes: expected at most the %d that were reserved", bytes, len(r.m))
	}
	end := (int(bytes) + Size - 1) &^ (Size - 1)
	if end <= r.open {
		return nil
	}
	if err := open(r.m[r.open:end]); err != nil {
		return fmt.Errorf("%d bytes: %w", bytes, err)
	}
	r.open = end
	return nil
}

// Bytes returns the first bytes, which must be open.
func (r *Room) Bytes(bytes int64) []byte { return r.m[:bytes:min(bytes, int64(r.open))] }

// At is the address of the first byte.
func (r *Room) At() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(r.m)) }

// Release gives the address space back. The room must not be used afterwards.
func (r *Room) Release() error { return release(r.m) }
