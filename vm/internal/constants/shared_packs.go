package constants

import (
	"sync"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// shared holds the packed constants of all programs that were read from mapped files:
// programs of one file, such as those of several batch sizes, have one copy of each.
var shared struct {
	sync.Mutex
	at map[packID]*sharedPack
}

// packID is a packed constant by its place in a file instead of in memory.
type packID struct {
	from, zeros mapped.Place
	key         form.PackKey // without addresses
	level       string       // the micro-kernels that it is packed for
}

// sharedPack is a packed constant with its users.
type sharedPack struct {
	id    packID
	users int // under the lock of sharedPacks

	mu    sync.Mutex
	block *store.Block // nil: not packed yet
}

// idOf returns the identity of a packed constant, if it is large enough to be shared and lies
// in a file.
func (c *Set) idOf(k form.PackKey, bytes int) (id packID, ok bool) {
	if c.Guard != nil || k.At == nil || bytes <= mostInSlab {
		return packID{}, false
	}
	id = packID{key: k, level: gemm.Level()}
	id.key.At, id.key.Zeros = nil, nil
	if id.from, ok = c.placeOf(k.At); ok && k.Zeros != nil {
		id.zeros, ok = c.placeOf(k.Zeros)
	}
	return id, ok
}

// placeOf returns where a constant lies in a file, or the one that it is a copy of.
func (c *Set) placeOf(at unsafe.Pointer) (mapped.Place, bool) {
	if place, ok := c.origins[at]; ok {
		return place, true
	}
	return mapped.PlaceOf(at)
}

// use returns the packed constant of an identity. Each call needs one of leave.
func use(id packID) *sharedPack {
	shared.Lock()
	defer shared.Unlock()
	if shared.at == nil {
		shared.at = map[packID]*sharedPack{}
	}
	p := shared.at[id]
	if p == nil {
		p = &sharedPack{id: id}
		shared.at[id] = p
	}
	p.users++
	return p
}

// leave ends the use of a packed constant, and frees it after the last.
func (p *sharedPack) leave() error {
	shared.Lock()
	defer shared.Unlock()
	if p.users--; p.users > 0 {
		return nil
	}
	delete(shared.at, p.id)
	return p.block.Free()
}

// packShared is pack for a constant that programs share. Each of them counts it against its
// limit, whoever packed it.
func (c *Set) packShared(id packID, bytes int, within store.Bound, fill func(dst unsafe.Pointer)) (*store.Block, error) {
	p := use(id)
	packed := false
	defer func() {
		if !packed {
			_ = p.leave() // the error, or the panic, is the one to report
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := c.packedBlock(int64(bytes), within, func(bytes int64) (*store.Block, error) {
		if p.block != nil {
			return &store.Block{Base: p.block.Base, Shared: true}, nil
		}
		return c.block(bytes, packedWeights)
	}, func(at unsafe.Pointer) error {
		if p.block == nil {
			fill(at)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p.block == nil {
		p.block = b
	}
	packed = true
	c.shared = append(c.shared, p)
	return &store.Block{Base: p.block.Base, Shared: true}, nil
}

// SharedPacks counts the packed constants that programs can share, and their users: for tests.
func SharedPacks() (packs, users int) {
	shared.Lock()
	defer shared.Unlock()
	for _, p := range shared.at {
		users += p.users
	}
	return len(shared.at), users
}
