package vm

import (
	"sync"

	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// account counts the bytes that a program and its sessions have allocated together.
type account struct {
	refuse   func(over) error // makes its errors
	mu       sync.Mutex
	taken    int64
	measured bool
	free     int64 // what the system can provide in total; negative: unknown
}

// over is an allocation that an account refuses.
type over struct {
	bytes, taken, held int64  // of the allocation; in use before, with what the caller holds; that alone
	limit              int64  // the largest sum of bytes and taken
	free               bool   // limit is the memory that was free
	device             string // whose memory it is; "": the machine's
}

// bound is the limit that a session sets to the account.
type bound struct {
	limit, held int64        // Options.MemoryLimit, Options.Held
	device      *cuda.Device // Options.Device, whose memory counts; nil: that of the host
}

// free returns the memory that is free; false if that is unknown.
func (b bound) free() (int64, bool) {
	if b.device == nil {
		return memory.Free()
	}
	free, _, err := b.device.Memory()
	return free, err == nil
}

// take counts bytes before they are allocated. It fails if they exceed what is left
// under the bound.
func (a *account) take(bytes int64, b bound) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	most, taken := b.limit, a.taken
	if b.limit > 0 {
		taken = units.Add(taken, b.held)
	} else {
		b.held = 0 // what is free does not include it
	}
	if b.limit == 0 {
		if a.taken == 0 || !a.measured {
			a.measured, a.free = true, -1
			if n, ok := b.free(); ok {
				a.free = units.Add(n, a.taken)
			}
		}
		most = a.free
	}
	if most >= 0 && (bytes > most || taken > most-bytes) {
		o := over{bytes: bytes, taken: taken, held: b.held, limit: most, free: b.limit == 0}
		if b.device != nil {
			o.device = b.device.Name()
		}
		return a.refuse(o)
	}
	a.taken = units.Add(a.taken, bytes)
	return nil
}

// Taken is what has been taken and not given back, in bytes.
func (a *account) Taken() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken
}

func (a *account) give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= bytes
}

// share counts the part of an account that belongs to one session, or to the
// constants of a program.
type share struct {
	of    *account
	bound bound
	bytes int64
}

// take counts bytes that are about to be allocated.
func (s *share) take(bytes int64) error { return s.within(bytes, s.bound) }

// within is take with the bound of another session.
func (s *share) within(bytes int64, b bound) error {
	if err := s.of.take(bytes, b); err != nil {
		return err
	}
	s.bytes += bytes
	return nil
}

// give uncounts bytes that were freed.
func (s *share) give(bytes int64) {
	s.of.give(bytes)
	s.bytes -= bytes
}

// close uncounts all bytes.
func (s *share) close() { s.give(s.bytes) }
