package exec

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
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

// ErrStray is wrapped by the error of a write outside of the node's own tensors.
var ErrStray = store.ErrStray

// ErrHost is wrapped by the error of a run that can no longer use its host pool.
var ErrHost = store.ErrHost

// checkGuards fails if the node that has just run wrote outside of its tensors.
func (s *Session) checkGuards(st *step) error {
	g := s.Mem.Guard
	if g.Few() {
		return g.Check(g.List)
	}
	list := append([]*store.Guarded(nil), st.has().scratch...)
	for _, t := range append(append([]*values.Tensor(nil), st.in...), st.out...) {
		if t != nil && t.Guarded != nil {
			list = append(list, t.Guarded)
		}
	}
	return g.Check(list)
}

// walls returns the layout of a kernel's guarded scratch; nil without a guard.
func (s *Session) walls() *kernel.Walls {
	if s.Mem.Guard == nil {
		return nil
	}
	return &kernel.Walls{Page: pages.Size, Front: s.Mem.Guard.Front}
}

// guardScratch replaces a node's scratch by what its prepared kernel asks for.
func (s *Session) guardScratch(st *step) error {
	w, workers := st.call().Walls, s.Pool.Workers()
	var runs, sizes []int
	var names []string
	label := st.f.g.Label(st.node)
	add := func(parts []int, what string) {
		for i, n := range parts {
			runs, sizes = append(runs, w.Pages(n)), append(sizes, n)
			names = append(names, fmt.Sprintf("part %d of %s of %s", i, what, label))
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
	if list := st.has().scratch; len(list) > 0 {
		st.more.scratch = nil
		if err := s.Mem.Guard.GiveParts(list); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	made, err := s.Mem.Guard.Parts(names, runs, sizes)
	if err == nil {
		st.own().scratch = made
	}
	return err
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
		p.Spoil()
	}
	base := scratch[0].Base()
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
	if err := s.Mem.Host.Fault(e.Addr()); err != nil {
		return err
	}
	if s.Mem.Guard != nil {
		if where := s.Mem.Guard.Describe(e.Addr()); where != "" {
			return fmt.Errorf("%w at %s", ErrFault, where)
		}
	}
	return fmt.Errorf("%w at address %#x", ErrFault, e.Addr())
}
