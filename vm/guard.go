package vm

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Guard says whether tensors lie in pages of their own, and where in them.
type Guard int

// The kinds of guard.
const (
	GuardOff   Guard = iota
	GuardEnd         // a tensor ends where its pages end
	GuardFront       // a tensor begins where its pages begin
)

// An access to memory that belongs to nobody fails with an error that wraps
// ErrFault: with Options.Guard, an access outside of a tensor.
var ErrFault = errors.New("memory fault")

// guard is the memory of a session whose tensors lie in pages of their own: a
// page that nobody can access lies before and behind each, so that an access
// outside of it faults. What a tensor leaves of its pages is slack on the one
// side, filled with poison, where a read is not seen and a write is found after
// the node.
type guard struct {
	front   bool
	list    []*guarded
	mem     *share
	bytes   int64          // of all pages
	nothing unsafe.Pointer // of tensors that have no place yet: nobody can access it
}

// guarded is one storage of a guard.
type guarded struct {
	what  string // for errors: a tensor, or scratch
	block *pages.Block
	run   int // of the block
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

// manyGuarded is how many storages, of two mappings each, may come near to what
// systems let a process have (65,530 by default on Linux).
const manyGuarded = 30_000

// take gives a storage of that many bytes, in which all is poison.
func (g *guard) take(what string, bytes int64) (*guarded, error) {
	w := kernel.Walls{Page: pages.Size}
	if int64(int(bytes)) != bytes {
		return nil, fmt.Errorf("%s of %d bytes: more than this machine can address", what, bytes)
	}
	walled := plus(max(bytes, 1), int64(pages.Size-1)) &^ int64(pages.Size-1)
	walled = plus(walled, 2*int64(pages.Size))
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

// give takes storages back: those for which drop says so.
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

// giveBytes takes back the storage whose bytes begin there.
func (g *guard) giveBytes(b []byte) {
	if b == nil {
		return
	}
	at := pages.Address(b)
	// The error would be the operating system's, about memory that it gave.
	_ = g.give(func(p *guarded) bool { return uintptr(p.at()) == at })
}

// close gives all back.
func (g *guard) close() error {
	if g == nil {
		return nil
	}
	return g.give(func(*guarded) bool { return true })
}

// fixed gives a storage that holds those bytes and cannot be written.
func (g *guard) fixed(what string, b []byte) ([]byte, error) {
	p, err := g.take(what, int64(len(b)))
	if err != nil {
		return nil, err
	}
	copy(p.bytes(), b)
	p.fixed = true
	return p.bytes(), p.block.Seal(p.run)
}

// at is where the bytes begin; for none of them, a byte that cannot be read.
func (p *guarded) at() unsafe.Pointer {
	begin := unsafe.Pointer(unsafe.SliceData(p.pages))
	if p.front && p.size > 0 {
		return begin
	}
	return unsafe.Add(begin, len(p.pages)-p.size)
}

// bytes are those in use.
func (p *guarded) bytes() []byte { return unsafe.Slice((*byte)(p.at()), p.size) }

// resize makes so many bytes the ones in use, and gives where they begin.
func (p *guarded) resize(bytes int64) unsafe.Pointer {
	if p.size != int(bytes) {
		p.size = int(bytes)
		rest, off := p.slack()
		signalling.spoil(rest, off)
	}
	return p.at()
}

// slack is what is not in use, and where it begins in the pages.
func (p *guarded) slack() (b []byte, off int64) {
	if p.front {
		return p.pages[p.size:], int64(p.size)
	}
	return p.pages[:len(p.pages)-p.size], 0
}

// look finds a byte of the slack that was written.
func (p *guarded) look() error {
	b, off := p.slack()
	k := signalling.spoiled(b, off)
	switch {
	case k < 0:
		return nil
	case p.front:
		return fmt.Errorf("%w: wrote a byte %d behind the end of %s (%d bytes)", ErrStray, k+1, p.what, p.size)
	}
	return fmt.Errorf("%w: wrote a byte %d before the begin of %s (%d bytes)", ErrStray, int64(len(b))-k, p.what, p.size)
}

// mostLooks is how many storages are all looked at after each node; of more, only
// those of the node are.
const mostLooks = 256

// look finds a write outside of tensors by a node that has just run.
func (g *guard) look(st *step) error {
	list := g.list
	if len(list) > mostLooks {
		list = append([]*guarded(nil), st.scratch...)
		for _, t := range append(append([]*tensor(nil), st.in...), st.out...) {
			if t != nil && t.guarded != nil {
				list = append(list, t.guarded)
			}
		}
	}
	for _, p := range list {
		if err := p.look(); err != nil {
			return err
		}
	}
	return nil
}

// lookAll finds a write outside of tensors at the end of a run.
func (g *guard) lookAll() error {
	if g == nil {
		return nil
	}
	for _, p := range g.list {
		if err := p.look(); err != nil {
			return fmt.Errorf("%w, by a node that has no business there", err)
		}
	}
	return nil
}

// describe says which storage an address is next to; "" if there is none.
func (g *guard) describe(addr uintptr) string {
	var best *guarded
	least := uintptr(pages.Size) // beyond the wall anything may lie
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
		// A wall lies between two storages: the nearer one is meant.
		if away <= least && (best == nil || away < least) {
			best, least = p, away
		}
	}
	if best == nil {
		return ""
	}
	switch off := int64(addr) - int64(uintptr(best.at())); {
	case off < 0:
		return fmt.Sprintf("%d bytes before the begin of %s (%d bytes)", -off, best.what, best.size)
	case off >= int64(best.size):
		return fmt.Sprintf("byte %d of %s, which has %d", off, best.what, best.size)
	case best.fixed:
		return fmt.Sprintf("a write to byte %d of %s, which is constant", off, best.what)
	default:
		return fmt.Sprintf("byte %d of %s", off, best.what)
	}
}

// walls is what a kernel lays its scratch out with: nil without a guard.
func (g *guard) walls() *kernel.Walls {
	if g == nil {
		return nil
	}
	return &kernel.Walls{Page: pages.Size, Front: g.front}
}

// scratchOf takes the scratch that a prepared kernel asked for, in place of what
// the node had.
func (g *guard) scratchOf(st *step, workers int) error {
	w := st.call.Walls
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
	if have := st.call.SharedBytes + workers*st.call.EachBytes; have != want {
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
	label := st.f.g.Label(st.node)
	for i, n := range sizes {
		p := g.add(names[i]+" of "+label, b, i, n)
		signalling.spoil(p.pages, 0)
		st.scratch = append(st.scratch, p)
	}
	return nil
}

// giveScratch takes back the scratch that a node had.
func (g *guard) giveScratch(st *step) error {
	if len(st.scratch) == 0 {
		return nil
	}
	b := st.scratch[0].block
	st.scratch = nil
	return g.give(func(p *guarded) bool { return p.block == b })
}

// useScratch is the scratch of a node for the kernel that is about to run. It
// holds poison, since what another step left there is nothing to rely on.
func (st *step) useScratch(w *work.Pool) {
	if len(st.scratch) == 0 {
		w.SetScratch(nil, nil, 0)
		return
	}
	for _, p := range st.scratch {
		signalling.spoil(p.pages, 0)
	}
	base := unsafe.Pointer(unsafe.SliceData(st.scratch[0].pages))
	w.SetScratch(base, unsafe.Add(base, st.call.SharedBytes), st.call.EachBytes)
}

// memoryFault is a fault as Go makes a panic of it.
type memoryFault interface {
	runtime.Error
	Addr() uintptr
}

// faultOf is an access to memory that is nobody's, or to bytes of a file that are
// gone, as an error; nil for another panic.
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

// nameOf is a tensor for errors about its storage.
func nameOf(name string) string { return fmt.Sprintf("tensor %q", graph.Short(name)) }
