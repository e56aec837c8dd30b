package store

import (
	"sync"

	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// Account counts the bytes that a program and its sessions have allocated together.
type Account struct {
	Explain  func(*Refusal) error // the error for people of a refused allocation
	mu       sync.Mutex
	taken    int64
	measured bool
	free     int64 // what the system can provide in total; negative: unknown
}

// Over is an allocation that an account refuses.
type Over struct {
	Bytes, Taken, Held int64  // of the allocation; in use before, with what the caller holds; that alone
	Limit              int64  // the largest sum of bytes and taken
	Free               bool   // limit is the memory that was free
	Device             string // whose memory it is; "": the machine's
}

// Refusal is the error of a refused allocation. It is, and wraps, what the owner of the account makes
// of it, when somebody asks.
type Refusal struct {
	Over
	// Of a session that is being made: its memory as far as it was laid out, the bytes of
	// constants on a device that this leaves out, and how much more of files would be resident
	// if nothing were packed.
	Needs               Memory
	Constants, Unpacked int64

	of *Account
}

func (r *Refusal) Error() string { return r.Unwrap().Error() }

// Unwrap returns the error for people.
func (r *Refusal) Unwrap() error { return r.of.Explain(r) }

// Memory lists the memory of a session, in bytes.
type Memory struct {
	ArenaBytes    int64
	StateBytes    int64 // parameters and states, in the resident pool
	DynamicBytes  int64 // tensors that the plan leaves out, so far
	ScratchBytes  int64 // of kernels
	TableBytes    int64 // tables that kernels keep
	HostBytes     int64 // the host pool, in memory or in a file
	DecodedBytes  int64 // constants that the file encodes differently, and copies of small ones
	PackedBytes   int64 // weights in the layout of the micro-kernels
	FileBytes     int64 // constants that kernels read in mapped files
	SeparateBytes int64 // with separate or guarded tensors: all of them
	HeapBytes     int64 // Go's heap for nodes and tensors, estimated from above
}

// Bound is the limit that a session sets to the account.
type Bound struct {
	Limit, Held int64        // Options.MemoryLimit, Options.Held
	Device      *cuda.Device // Options.Device, whose memory counts; nil: that of the host
}

// free returns the memory that is free; false if that is unknown.
func (b Bound) free() (int64, bool) {
	if b.Device == nil {
		return memory.Free()
	}
	free, _, err := b.Device.Memory()
	return free, err == nil
}

// take counts bytes before they are allocated. It fails if they exceed what is left
// under the bound.
func (a *Account) take(bytes int64, b Bound) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	most, taken := b.Limit, a.taken
	if b.Limit > 0 {
		taken = units.Add(taken, b.Held)
	} else {
		b.Held = 0 // what is free does not include it
	}
	if b.Limit == 0 {
		if a.taken == 0 || !a.measured {
			a.measured, a.free = true, -1
			if n, ok := b.free(); ok {
				a.free = units.Add(n, a.taken)
			}
		}
		most = a.free
	}
	if most >= 0 && (bytes > most || taken > most-bytes) {
		o := Over{Bytes: bytes, Taken: taken, Held: b.Held, Limit: most, Free: b.Limit == 0}
		if b.Device != nil {
			o.Device = b.Device.Name()
		}
		return &Refusal{Over: o, of: a}
	}
	a.taken = units.Add(a.taken, bytes)
	return nil
}

// Taken is what has been taken and not given back, in bytes.
func (a *Account) Taken() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.taken
}

func (a *Account) give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= bytes
}

// Share counts the part of an account that belongs to one session, or to the
// constants of a program.
type Share struct {
	Of    *Account
	Bound Bound
	Bytes int64
}

// Take counts bytes that are about to be allocated.
func (s *Share) Take(bytes int64) error { return s.Within(bytes, s.Bound) }

// Within is take with the bound of another session.
func (s *Share) Within(bytes int64, b Bound) error {
	if err := s.Of.take(bytes, b); err != nil {
		return err
	}
	s.Bytes += bytes
	return nil
}

// Give uncounts bytes that were freed.
func (s *Share) Give(bytes int64) {
	s.Of.give(bytes)
	s.Bytes -= bytes
}

// Close uncounts all bytes.
func (s *Share) Close() { s.Give(s.Bytes) }
