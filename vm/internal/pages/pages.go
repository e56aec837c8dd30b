// Package pages allocates memory between guard pages: runs of whole pages, with an
// inaccessible page before the first run, between any two runs, and after the last.
//
//	wall | run 0 | wall | run 1 | wall
//
// An access to a wall faults, in assembly, too. Freed blocks are reused, since a new
// mapping costs several system calls.
package pages

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Size is the size of a page in bytes.
var Size = os.Getpagesize()

// mostKept bounds the bytes of freed blocks that are kept for reuse.
const mostKept = 64 << 20

// Block is one or more runs of pages between walls.
type Block struct {
	m    []byte // from the first wall to the last
	runs [][]byte
	key  string // describes the runs: blocks with the same key are interchangeable
}

// kept holds the freed blocks, by key.
var kept struct {
	sync.Mutex
	blocks map[string][]*Block
	bytes  int
}

// Take allocates a block with runs of the given numbers of pages, each at least 1. The
// content is undefined.
func Take(runs ...int) (*Block, error) {
	key := fmt.Sprint(runs)
	if b := again(key); b != nil {
		return b, nil
	}
	total := 1
	for _, n := range runs {
		total += n + 1
	}
	m, err := reserve(total * Size)
	if err != nil {
		return nil, err
	}
	b := &Block{m: m, key: key}
	at := Size
	for _, n := range runs {
		run := m[at : at+n*Size : at+n*Size]
		if err := open(run); err != nil {
			_ = release(m) // the first error is the one to report
			return nil, err
		}
		b.runs = append(b.runs, run)
		at += (n + 1) * Size
	}
	return b, nil
}

// again returns a freed block with the given key, or nil if there is none.
func again(key string) *Block {
	kept.Lock()
	defer kept.Unlock()
	list := kept.blocks[key]
	if len(list) == 0 {
		return nil
	}
	b := list[len(list)-1]
	kept.blocks[key] = list[:len(list)-1]
	kept.bytes -= len(b.m)
	return b
}

// Run returns the bytes of run i.
func (b *Block) Run(i int) []byte { return b.runs[i] }

// Bytes is the size of the block in the address space, walls included.
func (b *Block) Bytes() int { return len(b.m) }

// Seal makes a run read-only: a write faults.
func (b *Block) Seal(i int) error { return protect(b.runs[i], false) }

// Unseal undoes Seal.
func (b *Block) Unseal(i int) error { return protect(b.runs[i], true) }

// Give frees the block. All its runs must be writable.
func (b *Block) Give() error {
	kept.Lock()
	if kept.bytes+len(b.m) <= mostKept {
		if kept.blocks == nil {
			kept.blocks = map[string][]*Block{}
		}
		kept.blocks[b.key] = append(kept.blocks[b.key], b)
		kept.bytes += len(b.m)
		kept.Unlock()
		return nil
	}
	kept.Unlock()
	return release(b.m)
}

// Address is the address of a run's first byte.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
