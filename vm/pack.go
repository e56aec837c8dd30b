package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/kernel"
)

// Pack implements kernel.Runtime: constants are packed once for all sessions.
func (st *step) Pack(k kernel.PackKey, bytes int, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	if st.f.s.opt.NoPack {
		return nil, false
	}
	return st.f.s.consts.pack(k, bytes, fill)
}

// pack gives the packed form of a constant, made by fill when it is first asked
// for.
func (c *constants) pack(k kernel.PackKey, bytes int, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.packs[k]; b != nil {
		return b.base, true
	}
	b, err := c.block(int64(bytes), "packed weights")
	if err != nil {
		return nil, false // they are packed at every step then
	}
	fill(b.base)
	c.packs[k] = b
	c.packed += int64(bytes)
	return b.base, true
}
