package constants

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// made is a constant that a node computes from constants, for all sessions.
type made struct {
	at    *store.Block
	users int  // sessions that are being built with it
	freed bool // every reader has it packed
	kept  bool // some reader does not have it packed
}

// Take returns the elements of a constant that a node computes. fill computes them
// at the first call. It returns nil if every reader has them packed.
func (c *Set) Take(t *graph.Tensor, bytes int, within store.Bound, fill func(dst unsafe.Pointer) error) (unsafe.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[t]
	if m == nil {
		at, err := c.packedBlock(int64(bytes), within, c.computed, fill)
		if err != nil {
			return nil, err
		}
		m = &made{at: at}
		c.made[t] = m
	}
	if m.freed {
		return nil, nil
	}
	m.users++
	return m.at.Base, nil
}

// Again returns the elements of a constant that were freed. fill computes them, if no
// other session has done so since. They stay.
func (c *Set) Again(t *graph.Tensor, bytes int, within store.Bound, fill func(dst unsafe.Pointer) error) (unsafe.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[t]
	if m.freed {
		at, err := c.packedBlock(int64(bytes), within, c.computed, fill)
		if err != nil {
			return nil, err
		}
		m.at, m.freed, m.kept = at, false, true
		c.packed += int64(bytes)
	}
	m.users++
	return m.at.Base, nil
}

// Give ends the use of a constant by a session that has been built; packed says that
// the session no longer needs the elements. It reports whether they may be gone.
func (c *Set) Give(t *graph.Tensor, bytes int64, packed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[t]
	if m.freed {
		return true
	}
	m.users--
	if !packed && !m.kept {
		m.kept = true
		c.packed += bytes
	}
	if packed && !m.kept && m.users == 0 {
		if m.freed = m.at.Free() == nil; m.freed && c.Guard == nil {
			c.Mem.Give(bytes)
		}
	}
	return packed
}

// Kept counts the computed constants that stay, because some product has not packed them: for
// tests.
func (c *Set) Kept() (n int) {
	for _, m := range c.made {
		if m.kept {
			n++
		}
	}
	return n
}
