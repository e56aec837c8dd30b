package subject

import (
	"context"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// ended is the panic with which the work ends when the context does: the checks are loops
// within loops that have no other way to fail.
type ended struct{ cause error }

// Over reports whether the context has ended.
func (s *Subject) Over() bool { return s.Context != nil && s.Context.Err() != nil }

// Poll ends the work if the context has ended. Loops whose rounds take long call it.
func (s *Subject) Poll() {
	if s.Over() {
		panic(ended{context.Cause(s.Context)})
	}
}

// RecoverEnd, deferred, turns the end of the work into its cause.
func RecoverEnd(err *error) {
	r := recover()
	if b, wrapped := r.(*bug.Error); wrapped { // by a goroutine
		if e, is := b.Value.(ended); is {
			r = e
		}
	}
	switch e := r.(type) {
	case nil:
	case ended:
		*err = e.cause
	default:
		panic(r)
	}
}
