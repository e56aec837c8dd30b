package constants

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Piece is how many bytes of constants are packed or copied before the pages of the
// mapped files are given back: as many may be in memory twice.
const Piece = 8 << 20

// Drop gives the pages of the mapped files back: what a kernel reads in place is mapped again
// when it does.
func (c *Set) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked()
}

func (c *Set) dropLocked() {
	c.packedSince = 0
	for _, f := range c.files {
		f.Drop()
	}
	if b := c.m.Source; b != nil && len(b.Bytes) > 0 {
		mapped.Release(unsafe.Pointer(unsafe.SliceData(b.Bytes)), len(b.Bytes))
	}
}

// Pack returns the packed form of a constant, which fill computes at the first call.
func (c *Set) Pack(k form.PackKey, bytes int, within store.Bound, fill func(dst unsafe.Pointer)) (unsafe.Pointer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.packs[k]; b != nil {
		return b.Base, true
	}
	var b *store.Block
	var err error
	if id, is := c.idOf(k, bytes); is {
		b, err = c.packShared(id, bytes, within, fill)
	} else {
		b, err = c.packedBlock(int64(bytes), within, c.room, func(at unsafe.Pointer) error {
			fill(at)
			return nil
		})
	}
	if err != nil {
		return nil, false // the kernel packs at every step then
	}
	c.packs[k] = b
	c.packed += int64(bytes)
	if c.packedSince += int64(bytes); c.packedSince >= Piece {
		c.dropLocked()
	}
	return b.Base, true
}

// packedBlock takes memory for a packed or computed constant and fills it. It frees the
// memory if fill fails or panics.
func (c *Set) packedBlock(bytes int64, within store.Bound, take func(bytes int64) (*store.Block, error), fill func(at unsafe.Pointer) error) (b *store.Block, err error) {
	if c.Guard == nil { // a guard counts its memory itself
		if err := c.Mem.Within(bytes, within); err != nil {
			return nil, err
		}
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		if c.Guard == nil {
			c.Mem.Give(bytes)
		}
		_ = b.Free() // the first error, or the panic, is the one to report
	}()
	if b, err = take(bytes); err != nil {
		return nil, err
	}
	if err := fill(b.Base); err != nil {
		return nil, err
	}
	whole = true
	return b, nil
}

// A slab is memory for many small packed constants, each of which would else take whole pages.
const (
	slabBytes  = 256 << 10
	slabAlign  = 64
	mostInSlab = slabBytes / 8 // bytes of a constant
)

const packedWeights = "packed weights" // what the memory is for, in errors

// room takes memory for a packed constant, which stays until all constants are freed: a part
// of a slab if it is small.
func (c *Set) room(bytes int64) (*store.Block, error) {
	if c.Guard != nil || bytes == 0 || bytes > mostInSlab {
		return c.block(bytes, packedWeights)
	}
	if c.slab == nil || c.slabUsed+bytes > slabBytes {
		b, err := store.NewBlock(slabBytes, packedWeights)
		if err != nil {
			return nil, err
		}
		c.slab, c.slabUsed, c.blocks = b, 0, append(c.blocks, b)
	}
	at := c.slabUsed
	c.slabUsed += (bytes + slabAlign - 1) &^ (slabAlign - 1)
	return &store.Block{Base: c.slab.At(at), Shared: true}, nil
}

// computed takes memory for a constant that a node computes.
func (c *Set) computed(bytes int64) (*store.Block, error) {
	return c.block(bytes, "constants made once")
}
