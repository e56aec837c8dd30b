package vm

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
)

// guard is the memory of a session whose tensors lie on pages of their own, with an
// inaccessible page before and behind each tensor's pages:
//
//	GuardEnd    | wall | slack  tensor | wall |
//	GuardFront  | wall | tensor  slack | wall |
//
// An access to a wall faults. The slack is the unused part of the pages. It is
// filled with poison: a read of it goes unnoticed, a write is found after the node.
type guard struct {
	front   bool
	list    []*guarded
	mem     *share
	bytes   int64          // of all pages
	nothing unsafe.Pointer // inaccessible: the address of tensors that have no place yet
}

// guarded is one storage of a guard.
type guarded struct {
	what  string // the tensor or scratch, for errors
	block *pages.Block
	run   int // index of the pages within the block
	pages []byte
	size  int // bytes in use
	front bool
	fixed bool // read-only
}

// newGuard returns the memory of a session; front says at which end of their pages storages
// begin or end.
func newGuard(front bool, mem *share) (*guard, error) {
	g := &guard{front: front, mem: mem}
	p, err := g.take("a tensor without bytes", 0)
	if err != nil {
		return nil, err
	}
	g.nothing = p.at()
	return g, nil
}

// manyGuarded is a number of storages, of two mappings each, that comes near the
// limit of mappings per process (65,530 by default on Linux).
const manyGuarded = 30_000

// take allocates a storage of the given bytes, filled with poison.
func (g *guard) take(what string, bytes int64) (*guarded, error) {
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	walled := units.Add(max(bytes, 1), int64(pages.Size-1)) &^ int64(pages.Size-1)
	walled = units.Add(walled, 2*int64(pages.Size))
	if err := g.mem.take(walled); err != nil {
		return nil, err
	}
	b, err := pages.Take(max(1, (int(bytes)+pages.Size-1)/pages.Size))
	if err != nil && len(g.list) >= manyGuarded {
		return nil, fmt.Errorf("%s of %d bytes between guard pages, after %d others: %w: a process may have so many mappings (Linux: sysctl vm.max_map_count)", what, bytes, len(g.list), err)
	}
	if err != nil {
		g.mem.give(walled)
		return nil, fmt.Errorf("%s of %d bytes between guard pages: %w", what, bytes, err)
	}
	p := g.add(what, b, 0, int(bytes))
	p.spoil()
	g.bytes += int64(b.Bytes())
	return p, nil
}

func (g *guard) add(what string, b *pages.Block, run, bytes int) *guarded {
	p := &guarded{what: what, block: b, run: run, pages: b.Run(run), size: bytes, front: g.front}
	g.list = append(g.list, p)
	return p
}

// give frees the storages for which drop returns true.
func (g *guard) give(drop func(p *guarded) bool) error {
	var first error
	kept := g.list[:0]
	for _, p := range g.list {
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
			g.bytes -= int64(p.block.Bytes())
			g.mem.give(int64(p.block.Bytes()))
			if err := p.block.Give(); err != nil && first == nil {
				first = err
			}
		}
	}
	clear(g.list[len(kept):])
	g.list = kept
	return first
}

// giveBytes frees the storage whose bytes begin at b.
func (g *guard) giveBytes(b []byte) {
	if b == nil {
		return
	}
	at := pages.Address(b)
	// An error could only come from the operating system, about its own memory.
	_ = g.give(func(p *guarded) bool { return uintptr(p.at()) == at })
}

// close frees all storages.
func (g *guard) close() error {
	if g == nil {
		return nil
	}
	return g.give(func(*guarded) bool { return true })
}

// fixed allocates a read-only storage that holds a copy of b.
func (g *guard) fixed(what string, b []byte) ([]byte, error) {
	p, err := g.take(what, int64(len(b)))
	if err != nil {
		return nil, err
	}
	copy(p.bytes(), b)
	p.fixed = true
	return p.bytes(), p.block.Seal(p.run)
}

// at is the address of the first byte; without bytes, an inaccessible address.
func (p *guarded) at() unsafe.Pointer {
	begin := unsafe.Pointer(unsafe.SliceData(p.pages))
	if p.front && p.size > 0 {
		return begin
	}
	return unsafe.Add(begin, len(p.pages)-p.size)
}

// bytes are the bytes in use.
func (p *guarded) bytes() []byte { return unsafe.Slice((*byte)(p.at()), p.size) }

// resize changes the number of bytes in use, and returns their address.
func (p *guarded) resize(bytes int64) unsafe.Pointer {
	if p.size != int(bytes) {
		p.size = int(bytes)
		rest, off := p.slack()
		signalling.spoil(rest, off)
	}
	return p.at()
}

// slack returns the unused bytes, and their offset in the pages.
func (p *guarded) slack() (b []byte, off int64) {
	if p.front {
		return p.pages[p.size:], int64(p.size)
	}
	return p.pages[:len(p.pages)-p.size], 0
}

// check fails if a byte of the slack was written.
func (p *guarded) check() error {
	b, off := p.slack()
	k := signalling.firstChanged(b, off)
	switch {
	case k < 0:
		return nil
	case p.front:
		return fmt.Errorf("%w: wrote a byte %d behind the end of %s (%d bytes)", ErrStray, k+1, p.what, p.size)
	}
	return fmt.Errorf("%w: wrote a byte %d before the start of %s (%d bytes)", ErrStray, int64(len(b))-k, p.what, p.size)
}

// checkAll checks all storages at the end of a run.
func (g *guard) checkAll() error {
	if g == nil {
		return nil
	}
	for _, p := range g.list {
		if err := p.check(); err != nil {
			return fmt.Errorf("%w, by a node that has no business there", err)
		}
	}
	return nil
}

// describe names the storage next to an address; "" if there is none.
func (g *guard) describe(addr uintptr) string {
	var best *guarded
	least := uintptr(pages.Size) // beyond the wall lies unrelated memory
	for _, p := range g.list {
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
	switch off := int64(addr) - int64(uintptr(best.at())); {
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

// few reports whether all storages can be checked after each node. With more of them, only
// the node's own are.
func (g *guard) few() bool { return len(g.list) <= maxChecked }

// maxChecked is the largest number of storages that are all checked after each node.
const maxChecked = 256

// check fails if a byte beside one of the storages was written.
func (g *guard) check(list []*guarded) error {
	for _, p := range list {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

// parts allocates storages that lie behind one another, of the given bytes and pages, with a
// wall between two.
func (g *guard) parts(names []string, runs, sizes []int) ([]*guarded, error) {
	bytes := int64(pages.Size)
	for _, n := range runs {
		bytes += int64(n+1) * int64(pages.Size)
	}
	if err := g.mem.take(bytes); err != nil {
		return nil, err
	}
	b, err := pages.Take(runs...)
	if err != nil {
		g.mem.give(bytes)
		return nil, fmt.Errorf("scratch of %d bytes between guard pages: %w", bytes-int64(pages.Size), err)
	}
	g.bytes += int64(b.Bytes())
	var made []*guarded
	for i, n := range sizes {
		p := g.add(names[i], b, i, n)
		p.spoil()
		made = append(made, p)
	}
	return made, nil
}

// giveParts frees storages that parts allocated together.
func (g *guard) giveParts(list []*guarded) error {
	if len(list) == 0 {
		return nil
	}
	b := list[0].block
	return g.give(func(p *guarded) bool { return p.block == b })
}

// base is the address of the first byte of the pages.
func (p *guarded) base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(p.pages)) }

// spoil fills the pages with poison.
func (p *guarded) spoil() { signalling.spoil(p.pages, 0) }
