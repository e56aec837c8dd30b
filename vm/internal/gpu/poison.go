package gpu

import (
	"errors"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// Poison writes a pattern over device memory and finds what has changed it.
type Poison struct {
	queue      *cuda.Queue
	fill, find *cuda.Launch
	word       *cuda.Block // what find has found
}

// mostPoisonBlocks is the number of blocks for many bytes.
const mostPoisonBlocks = 1024

// poisonBlocks is the number of blocks for some bytes: most calls are about the 64 bytes of
// a margin.
func poisonBlocks(bytes int64) int { return min(blocksFor(int(bytes/8)), mostPoisonBlocks) }

// NewPoison prepares the kernels; Ready must follow. It needs the context.
func (k *Kernels) NewPoison() (*Poison, error) {
	word, err := k.Queue.Device.Take(8, "the place of stray writes")
	if err != nil {
		return nil, err
	}
	p := &Poison{queue: k.Queue, word: word}
	blocks, threads := driver.Dim3{X: mostPoisonBlocks, Y: 1, Z: 1}, driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}
	source := k.source("poison.cu")
	if p.fill, err = k.Queue.Launch(cuda.Kernel{Source: source, Name: "poison_fill"}, blocks, threads, 0, driver.Ptr(0), int64(0), uint64(0)); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.find, err = k.Queue.Launch(cuda.Kernel{Source: source, Name: "poison_find"}, blocks, threads, 0, word.At, driver.Ptr(0), int64(0), uint64(0))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close frees the memory. It needs the context.
func (p *Poison) Close() error {
	if p == nil {
		return nil
	}
	return p.word.Free()
}

// Fill puts the pattern over bytes that begin at a multiple of 8.
func (p *Poison) Fill(at driver.Ptr, bytes int64, pattern uint64) error {
	if bytes == 0 {
		return nil
	}
	p.fill.Set(0, at)
	p.fill.Set(1, bytes)
	p.fill.Set(2, pattern)
	p.fill.SetBlocks(poisonBlocks(bytes))
	return p.fill.Run()
}

// FirstChanged waits for the queue, and returns the index of the first byte that does not
// have the pattern any more, or -1.
func (p *Poison) FirstChanged(at driver.Ptr, bytes int64, pattern uint64) (int64, error) {
	if bytes == 0 {
		return -1, nil
	}
	if err := driver.Fill8(p.word.At, 0xff, 8, p.queue.Stream); err != nil {
		return 0, err
	}
	p.find.Set(1, at)
	p.find.Set(2, bytes)
	p.find.Set(3, pattern)
	p.find.SetBlocks(poisonBlocks(bytes))
	found := uint64(math.MaxUint64)
	err := errors.Join(p.find.Run(), driver.Download(unsafe.Pointer(&found), p.word.At, 8, p.queue.Stream), p.queue.Stream.Synchronize())
	if err != nil || found == math.MaxUint64 {
		return -1, err
	}
	return int64(found), nil
}
