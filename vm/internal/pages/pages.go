// Package pages hands out memory whose ends are seen: runs of whole pages, with a
// page before the first, between any two, and behind the last that nobody can
// read or write.
//
//	wall | run 0 | wall | run 1 | wall
//
// An access to a wall faults, also in assembly. Blocks that were given back are
// used again, since a fresh mapping costs several system calls.
package pages

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Size is the bytes of a page.
var Size = os.Getpagesize()

// mostKept bounds the bytes of blocks that were given back and are kept.
const mostKept = 64 << 20

// Block is one or more runs of pages between walls.
type Block struct {
	m    []byte // from the first wall to the last
	runs [][]byte
	key  string // its form: blocks of one key can stand for each other
}

// kept are the blocks that were given back, by form.
var kept struct {
	sync.Mutex
	blocks map[string][]*Block
	bytes  int
}

// Take gives a block with runs of so many pages each, at least one. What its
// bytes are is not said.
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
			_ = release(m) // the first error says why
			return nil, err
		}
		b.runs = append(b.runs, run)
		at += (n + 1) * Size
	}
	return b, nil
}

// again gives a block of that form that was given back, nil if there is none.
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

// Run is the bytes of run i.
func (b *Block) Run(i int) []byte { return b.runs[i] }

// Bytes is what the block takes of the address space, walls included.
func (b *Block) Bytes() int { return len(b.m) }

// Seal makes a run read-only: a write faults.
func (b *Block) Seal(i int) error { return protect(b.runs[i], false) }

// Unseal undoes Seal.
func (b *Block) Unseal(i int) error { return protect(b.runs[i], true) }

// Give takes the block back. All its runs must be writable.
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

// Address is where a run begins.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
