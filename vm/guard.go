package vm

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Guard says whether tensors lie on pages of their own, and at which end of them.
type Guard int

// The kinds of guard.
const (
	GuardOff   Guard = iota
	GuardEnd         // a tensor ends where its pages end
	GuardFront       // a tensor begins where its pages begin
)

// ErrFault is wrapped by the error of an access to memory that is not mapped: with
// Options.Guard, an access outside of a tensor.
var ErrFault = errors.New("memory fault")

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

func newGuard(kind Guard, mem *share) (*guard, error) {
	g := &guard{front: kind == GuardFront, mem: mem}
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
	w := kernel.Walls{Page: pages.Size}
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	walled := units.Add(max(bytes, 1), int64(pages.Size-1)) &^ int64(pages.Size-1)
	walled = units.Add(walled, 2*int64(pages.Size))
	if err := g.mem.take(walled); err != nil {
		return nil, err
	}
	b, err := pages.Take(w.Pages(int(bytes)))
	if err != nil && len(g.list) >= manyGuarded {
		return nil, fmt.Errorf("%s of %d bytes between guard pages, after %d others: %w: a process may have so many mappings (Linux: sysctl vm.max_map_count)", what, bytes, len(g.list), err)
	}
	if err != nil {
		g.mem.give(walled)
		return nil, fmt.Errorf("%s of %d bytes between guard pages: %w", what, bytes, err)
	}
	p := g.add(what, b, 0, int(bytes))
	signalling.spoil(p.pages, 0)
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

// maxChecked is the largest number of storages that are all checked after each node.
// With more of them, only the node's own storages are checked.
const maxChecked = 256

// check fails if the node that has just run wrote outside of its tensors.
func (g *guard) check(st *step) error {
	list := g.list
	if len(list) > maxChecked {
		list = append([]*guarded(nil), st.has().scratch...)
		for _, t := range append(append([]*tensor(nil), st.in...), st.out...) {
			if t != nil && t.guarded != nil {
				list = append(list, t.guarded)
			}
		}
	}
	for _, p := range list {
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
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

// walls returns the layout of a kernel's guarded scratch; nil without a guard.
func (g *guard) walls() *kernel.Walls {
	if g == nil {
		return nil
	}
	return &kernel.Walls{Page: pages.Size, Front: g.front}
}

// scratchOf replaces a node's scratch by what its prepared kernel asks for.
func (g *guard) scratchOf(st *step, workers int) error {
	w := st.call().Walls
	var runs, sizes []int
	var names []string
	add := func(parts []int, what string) {
		for i, n := range parts {
			runs, sizes = append(runs, w.Pages(n)), append(sizes, n)
			names = append(names, fmt.Sprintf("part %d of %s", i, what))
		}
	}
	add(w.Shared, "scratch")
	for k := range workers {
		add(w.Each, fmt.Sprintf("scratch of worker %d", k))
	}
	want := 0
	for _, n := range runs {
		want += (n + 1) * w.Page
	}
	if have := st.call().SharedBytes + workers*st.call().EachBytes; have != want {
		return fmt.Errorf("internal error: scratch of %d bytes, its parts take %d", have, want)
	}
	if err := g.giveScratch(st); err != nil || len(runs) == 0 {
		return err
	}
	if err := g.mem.take(int64(want + w.Page)); err != nil {
		return err
	}
	b, err := pages.Take(runs...)
	if err != nil {
		g.mem.give(int64(want + w.Page))
		return fmt.Errorf("scratch of %d bytes between guard pages: %w", want, err)
	}
	g.bytes += int64(b.Bytes())
	label, own := st.f.g.Label(st.node), st.own()
	for i, n := range sizes {
		p := g.add(names[i]+" of "+label, b, i, n)
		signalling.spoil(p.pages, 0)
		own.scratch = append(own.scratch, p)
	}
	return nil
}

// giveScratch frees the scratch of a node.
func (g *guard) giveScratch(st *step) error {
	if len(st.has().scratch) == 0 {
		return nil
	}
	b := st.more.scratch[0].block
	st.more.scratch = nil
	return g.give(func(p *guarded) bool { return p.block == b })
}

// useScratch hands a node's scratch to its kernel, which is about to run. It is
// filled with poison first, since kernels must not rely on its content.
func (st *step) useScratch(w *work.Pool) {
	scratch := st.has().scratch
	if len(scratch) == 0 {
		w.SetScratch(nil, nil, 0)
		return
	}
	for _, p := range scratch {
		signalling.spoil(p.pages, 0)
	}
	base := unsafe.Pointer(unsafe.SliceData(scratch[0].pages))
	w.SetScratch(base, unsafe.Add(base, st.call().SharedBytes), st.call().EachBytes)
}

// memoryFault is the value of Go's panic for a memory fault.
type memoryFault interface {
	runtime.Error
	Addr() uintptr
}

// faultOf turns the panic for an access to unmapped memory, or to bytes that were cut
// from a mapped file, into an error. It returns nil for other panics.
func (s *Session) faultOf(r any) error {
	if err := mapped.ErrorOf(r); err != nil {
		return err
	}
	e, ok := r.(memoryFault)
	if !ok {
		return nil
	}
	if err := s.host.fault(e.Addr()); err != nil {
		return err
	}
	if s.guard != nil {
		if where := s.guard.describe(e.Addr()); where != "" {
			return fmt.Errorf("%w at %s", ErrFault, where)
		}
	}
	return fmt.Errorf("%w at address %#x", ErrFault, e.Addr())
}

// nameOf names a tensor in errors about its storage.
func nameOf(name string) string { return fmt.Sprintf("tensor %q", graph.Short(name)) }
