package exec

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// ErrFault is wrapped by the error of an access to memory that is not mapped: with
// Options.Guard, an access outside of a tensor.
var ErrFault = errors.New("memory fault")

// ErrStray is wrapped by the error of a write outside of the node's own tensors.
var ErrStray = store.ErrStray

// ErrHost is wrapped by the error of a run that can no longer use its host pool.
var ErrHost = store.ErrHost

// checkGuards fails if the node that has just run wrote outside of its tensors.
func (s *Session) checkGuards(st *lower.Step) error {
	g := s.Mem.Guard
	if g.Few() {
		return g.Check(g.List)
	}
	list := append([]*store.Guarded(nil), st.Has().Scratch...)
	for _, t := range append(append([]*values.Tensor(nil), st.In...), st.Out...) {
		if t != nil && t.Guarded != nil {
			list = append(list, t.Guarded)
		}
	}
	return g.Check(list)
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
