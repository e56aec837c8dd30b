package store

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
)

// Guard is the memory of a session whose tensors lie on pages of their own, with an
// inaccessible page before and behind each tensor's pages:
//
//	GuardEnd    | wall | slack  tensor | wall |
//	GuardFront  | wall | tensor  slack | wall |
//
// An access to a wall faults. The slack is the unused part of the pages. It is
// filled with poison: a read of it goes unnoticed, a write is found after the node.
type Guard struct {
	Front   bool
	List    []*Guarded
	mem     *Share
	Bytes   int64          // of all pages
	Nothing unsafe.Pointer // inaccessible: the address of tensors that have no place yet
}

// Guarded is one storage of a guard.
type Guarded struct {
	what  string // the tensor or scratch, for errors
	block *pages.Block
	run   int // index of the pages within the block
	pages []byte
	size  int // bytes in use
	front bool
	fixed bool // read-only
}

// NewGuard returns the memory of a session; front says at which end of their pages storages
// begin or end.
func NewGuard(front bool, mem *Share) (*Guard, error) {
	g := &Guard{Front: front, mem: mem}
	p, err := g.Take("a tensor without bytes", 0)
	if err != nil {
		return nil, err
	}
	g.Nothing = p.At()
	return g, nil
}

// manyGuarded is a number of storages, of two mappings each, that comes near the
// limit of mappings per process (65,530 by default on Linux).
const manyGuarded = 30_000

// Take allocates a storage of the given bytes, filled with poison.
func (g *Guard) Take(what string, bytes int64) (*Guarded, error) {
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	walled := units.Add(max(bytes, 1), int64(pages.Size-1)) &^ int64(pages.Size-1)
	walled = units.Add(walled, 2*int64(pages.Size))
	if err := g.mem.Take(walled); err != nil {
		return nil, err
	}
	b, err := pages.Take(max(1, (int(bytes)+pages.Size-1)/pages.Size))
	if err != nil && len(g.List) >= manyGuarded {
		return nil, fmt.Errorf("%s of %d bytes between guard pages, after %d others: %w: a process may have so many mappings (Linux: sysctl vm.max_map_count)", what, bytes, len(g.List), err)
	}
	if err != nil {
		g.mem.Give(walled)
		return nil, fmt.Errorf("%s of %d bytes between guard pages: %w", what, bytes, err)
	}
	p := g.add(what, b, 0, int(bytes))
	p.Spoil()
	g.Bytes += int64(b.Bytes())
	return p, nil
}

func (g *Guard) add(what string, b *pages.Block, run, bytes int) *Guarded {
	p := &Guarded{what: what, block: b, run: run, pages: b.Run(run), size: bytes, front: g.Front}
	g.List = append(g.List, p)
	return p
}

// give frees the storages for which drop returns true.
func (g *Guard) give(drop func(p *Guarded) bool) error {
	var first error
	kept := g.List[:0]
	for _, p := range g.List {
		if !drop(p) {
			kept = append(kept, p)
			continue
		}
		if p.fixed {
			if err := p.block.Unseal(p.run); err != nil && first == nil {
				first = err
			}
		}
		if p.run == 0 {
			g.Bytes -= int64(p.block.Bytes())
			g.mem.Give(int64(p.block.Bytes()))
			if err := p.block.Give(); err != nil && first == nil {
				first = err
			}
		}
	}
	clear(g.List[len(kept):])
	g.List = kept
	return first
}

// GiveBytes frees the storage whose bytes begin at b.
func (g *Guard) GiveBytes(b []byte) {
	if b == nil {
		return
	}
	at := pages.Address(b)
	// An error could only come from the operating system, about its own memory.
	_ = g.give(func(p *Guarded) bool { return uintptr(p.At()) == at })
}

// Close frees all storages.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	return g.give(func(*Guarded) bool { return true })
}

// Fixed allocates a read-only storage that holds a copy of b.
func (g *Guard) Fixed(what string, b []byte) ([]byte, error) {
	p, err := g.Take(what, int64(len(b)))
	if err != nil {
		return nil, err
	}
	copy(p.Bytes(), b)
	p.fixed = true
	return p.Bytes(), p.block.Seal(p.run)
}

// At is the address of the first byte; without bytes, an inaccessible address.
func (p *Guarded) At() unsafe.Pointer {
	begin := unsafe.Pointer(unsafe.SliceData(p.pages))
	if p.front && p.size > 0 {
		return begin
	}
	return unsafe.Add(begin, len(p.pages)-p.size)
}

// Bytes are the bytes in use.
func (p *Guarded) Bytes() []byte { return unsafe.Slice((*byte)(p.At()), p.size) }

// Resize changes the number of bytes in use, and returns their address.
func (p *Guarded) Resize(bytes int64) unsafe.Pointer {
	if p.size != int(bytes) {
		p.size = int(bytes)
		rest, off := p.slack()
		Signalling.Spoil(rest, off)
	}
	return p.At()
}

// slack returns the unused bytes, and their offset in the pages.
func (p *Guarded) slack() (b []byte, off int64) {
	if p.front {
		return p.pages[p.size:], int64(p.size)
	}
	return p.pages[:len(p.pages)-p.size], 0
}

// Check fails if a byte of the slack was written.
func (p *Guarded) Check() error {
	b, off := p.slack()
	k := Signalling.FirstChanged(b, off)
	switch {
	case k < 0:
		return nil
	case p.front:
		return fmt.Errorf("%w: wrote a byte %d behind the end of %s (%d bytes)", ErrStray, k+1, p.what, p.size)
	}
	return fmt.Errorf("%w: wrote a byte %d before the start of %s (%d bytes)", ErrStray, int64(len(b))-k, p.what, p.size)
}

// CheckAll checks all storages at the end of a run.
func (g *Guard) CheckAll() error {
	if g == nil {
		return nil
	}
	for _, p := range g.List {
		if err := p.Check(); err != nil {
			return fmt.Errorf("%w, by a node that has no business there", err)
		}
	}
	return nil
}

// Describe names the storage next to an address; "" if there is none.
func (g *Guard) Describe(addr uintptr) string {
	var best *Guarded
	least := uintptr(pages.Size) // beyond the wall lies unrelated memory
	for _, p := range g.List {
		begin := pages.Address(p.pages)
		end := begin + uintptr(len(p.pages))
		away := uintptr(0)
		switch {
		case addr < begin:
			away = begin - addr
		case addr >= end:
			away = addr - end
		}
		// Two storages share a wall: take the nearer one.
		if away <= least && (best == nil || away < least) {
			best, least = p, away
		}
	}
	if best == nil {
		return ""
	}
	switch off := int64(addr) - int64(uintptr(best.At())); {
	case off < 0:
		return fmt.Sprintf("%d bytes before the start of %s (%d bytes)", -off, best.what, best.size)
	case off >= int64(best.size):
		return fmt.Sprintf("byte %d of %s, which has %d", off, best.what, best.size)
	case best.fixed:
		return fmt.Sprintf("a write to byte %d of %s, which is constant", off, best.what)
	default:
		return fmt.Sprintf("byte %d of %s", off, best.what)
	}
}

// Few reports whether all storages can be checked after each node. With more of them, only
// the node's own are.
func (g *Guard) Few() bool { return len(g.List) <= maxChecked }

// maxChecked is the largest number of storages that are all checked after each node.
const maxChecked = 256

// Check fails if a byte beside one of the storages was written.
func (g *Guard) Check(list []*Guarded) error {
	for _, p := range list {
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Parts allocates storages that lie behind one another, of the given bytes and pages, with a
// wall between two.
func (g *Guard) Parts(names []string, runs, sizes []int) ([]*Guarded, error) {
	bytes := int64(pages.Size)
	for _, n := range runs {
		bytes += int64(n+1) * int64(pages.Size)
	}
	if err := g.mem.Take(bytes); err != nil {
		return nil, err
	}
	b, err := pages.Take(runs...)
	if err != nil {
		g.mem.Give(bytes)
		return nil, fmt.Errorf("scratch of %d bytes between guard pages: %w", bytes-int64(pages.Size), err)
	}
	g.Bytes += int64(b.Bytes())
	var made []*Guarded
	for i, n := range sizes {
		p := g.add(names[i], b, i, n)
		p.Spoil()
		made = append(made, p)
	}
	return made, nil
}

// GiveParts frees storages that parts allocated together.
func (g *Guard) GiveParts(list []*Guarded) error {
	if len(list) == 0 {
		return nil
	}
	b := list[0].block
	return g.give(func(p *Guarded) bool { return p.block == b })
}

// Base is the address of the first byte of the pages.
func (p *Guarded) Base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(p.pages)) }

// Spoil fills the pages with poison.
func (p *Guarded) Spoil() { Signalling.Spoil(p.pages, 0) }
