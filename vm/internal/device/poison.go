package device

import (
	"fmt"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// of returns where a block lies on the device.
func (g *Memory) of(b *store.Block) driver.Ptr {
	for _, m := range g.mirrors {
		if m.host == b {
			return m.dev.At - driver.Ptr(m.from)
		}
	}
	panic(values.DeviceError{Err: fmt.Errorf("a block of %d bytes has no place on the device", len(b.Bytes))})
}

// Spoil fills bytes [off, end) of a block with poison.
func (g *Memory) Spoil(b *store.Block, off, end int64, p store.Poison) {
	if err := g.Poison.Fill(g.of(b)+driver.Ptr(off), end-off, uint64(p)); err != nil {
		panic(values.DeviceError{Err: err})
	}
}

// FirstChanged returns the index of the first of the bytes [off, end) of a block that is
// no longer poison, or -1.
func (g *Memory) FirstChanged(b *store.Block, off, end int64, p store.Poison) int64 {
	k, err := g.Poison.FirstChanged(g.of(b)+driver.Ptr(off), end-off, uint64(p))
	if err != nil {
		panic(values.DeviceError{Err: err})
	}
	return k
}

// SpoilScratch fills the device's scratch with poison.
func (g *Memory) SpoilScratch(p store.Poison) {
	b := g.Queue.Scratch()
	if b == nil {
		return
	}
	if err := g.Poison.Fill(b.At, b.Bytes, uint64(p)); err != nil {
		panic(values.DeviceError{Err: err})
	}
}
