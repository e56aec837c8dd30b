package vm

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/units"
)

// LimitError says that more memory was asked for than Options.MemoryLimit leaves:
// when a session is made, or at run time for a tensor or a kernel whose size
// depends on data. It was not taken. The *graph.Error around it names the node
// and the tensor.
type LimitError struct {
	Bytes int64  // asked for
	Taken int64  // before, by all sessions of the program, with Held
	Held  int64  // Options.Held
	Limit int64  // of all of that
	Free  bool   // Limit is the memory that was free (Options.MemoryLimit 0)
	Needs Memory // of the session as far as it was laid out, when it is made; else zero
}

func (e *LimitError) Error() string {
	var b strings.Builder
	if e.Needs == (Memory{}) {
		fmt.Fprintf(&b, "asks for %s with %s in use", units.Bytes(e.Bytes), units.Short(e.Taken))
	} else {
		fmt.Fprintf(&b, "needs %s: arena %s, parameters and states %s, scratch %s", units.Bytes(plus(e.Bytes, e.Taken)),
			units.Short(e.Needs.ArenaBytes), units.Short(e.Needs.StateBytes), units.Short(e.Needs.ScratchBytes))
		for _, part := range []struct {
			what  string
			bytes int64
		}{
			{"tensors apart", e.Needs.ApartBytes},
			{"dynamic tensors", e.Needs.DynamicBytes},
			{"tables", e.Needs.TableBytes},
			{"host pool", e.Needs.HostBytes},
			{"decoded constants", e.Needs.DecodedBytes},
			{"packed weights", e.Needs.PackedBytes},
			{"held by the caller", e.Held},
		} {
			if part.bytes > 0 {
				fmt.Fprintf(&b, ", %s %s", part.what, units.Short(part.bytes))
			}
		}
	}
	fmt.Fprintf(&b, ": expected at most %s", units.Bytes(e.Limit))
	if e.Free {
		b.WriteString(", which is free")
	}
	return b.String()
}

// FitsUnpacked reports whether the session would have fitted with Options.NoPack.
func (e *LimitError) FitsUnpacked() bool {
	return e.Needs.PackedBytes > 0 && plus(e.Bytes, e.Taken)-e.Needs.PackedBytes <= e.Limit
}

// plus adds sizes; what does not fit is the largest.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// account is the bytes that a program and its sessions have taken together.
type account struct {
	mu       sync.Mutex
	taken    int64
	measured bool
	free     int64 // what can be taken in all, by the system; negative: it does not tell
}

// bound is how much a session lets the account come to.
type bound struct {
	limit, held int64 // Options.MemoryLimit, Options.Held
}

func (o *Options) bound() bound { return bound{o.MemoryLimit, o.Held} }

// take counts bytes before they are allocated. It fails if they exceed the rest of
// the bound.
func (a *account) take(bytes int64, b bound) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	most, taken := b.limit, a.taken
	if b.limit > 0 {
		taken = plus(taken, b.held)
	} else {
		b.held = 0 // it was there when what is free was measured
	}
	if b.limit == 0 {
		if a.taken == 0 || !a.measured {
			a.measured, a.free = true, -1
			if n, ok := memory.Free(); ok {
				a.free = plus(n, a.taken)
			}
		}
		most = a.free
	}
	if most >= 0 && (bytes > most || taken > most-bytes) {
		return &LimitError{Bytes: bytes, Taken: taken, Held: b.held, Limit: most, Free: b.limit == 0}
	}
	a.taken = plus(a.taken, bytes)
	return nil
}

func (a *account) give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= bytes
}

// share is what one session, or the constants of a program, have of an account.
type share struct {
	of    *account
	bound bound
	bytes int64
}

// take counts bytes that are about to be taken.
func (s *share) take(bytes int64) error { return s.within(bytes, s.bound) }

// within is take with the bound of who asks.
func (s *share) within(bytes int64, b bound) error {
	if err := s.of.take(bytes, b); err != nil {
		return err
	}
	s.bytes += bytes
	return nil
}

// give takes bytes out of the count that were given back.
func (s *share) give(bytes int64) {
	s.of.give(bytes)
	s.bytes -= bytes
}

// close takes all out.
func (s *share) close() { s.give(s.bytes) }
