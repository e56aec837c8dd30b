package verify

import (
	"context"

	"github.com/onnxmem/onnxmem/internal/bug"
)

// ended is the panic with which the work ends when the context does: the checks are loops
// within loops that have no other way to fail.
type ended struct{ cause error }

// over reports whether the context has ended.
func (v *verifier) over() bool { return v.opt.Context != nil && v.opt.Context.Err() != nil }

// poll ends the work if the context has ended. Loops whose rounds take long call it.
func (v *verifier) poll() {
	if v.over() {
		panic(ended{context.Cause(v.opt.Context)})
	}
}

// recoverEnd turns the end of the work into its cause.
func (v *verifier) recoverEnd(err *error) {
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
