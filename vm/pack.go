package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Pack implements kernel.Runtime: constants are packed once for all sessions.
func (st *step) Pack(k kernel.PackKey, bytes int, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	if st.f.s.opt.NoPack {
		return nil, false
	}
	return st.f.s.consts.pack(k, bytes, st.f.s.opt.bound(), fill)
}

// pack returns the packed form of a constant, which fill computes at the first call.
func (c *constants) pack(k kernel.PackKey, bytes int, within bound, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.packs[k]; b != nil {
		return b.base, true
	}
	b, err := c.packedBlock(int64(bytes), within, "packed weights", func(at unsafe.Pointer) error {
		fill(at)
		return nil
	})
	if err != nil {
		return nil, false // the kernel packs at every step then
	}
	c.packs[k] = b
	c.packed += int64(bytes)
	return b.base, true
}

// packedBlock allocates memory for packed or computed constants and fills it. It frees
// the memory if fill fails or panics.
func (c *constants) packedBlock(bytes int64, within bound, what string, fill func(at unsafe.Pointer) error) (b *block, err error) {
	if c.guard == nil { // a guard counts its memory itself
		if err := c.mem.within(bytes, within); err != nil {
			return nil, err
		}
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		if c.guard == nil {
			c.mem.give(bytes)
		}
		_ = b.free() // the first error, or the panic, is the one to report
	}()
	if b, err = c.block(bytes, what); err != nil {
		return nil, err
	}
	if err := fill(b.base); err != nil {
		return nil, err
	}
	whole = true
	return b, nil
}
