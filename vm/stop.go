package vm

import (
	"context"
	"errors"
	"fmt"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// If its context ends a run, the error wraps ErrStopped and the context's cause.
// The *graph.Error around it names the node that ran.
var ErrStopped = errors.New("stopped")

// until stops the run that begins soon after ctx ends. While runs have the same
// context it keeps listening, so that a step allocates nothing.
func (s *Session) until(ctx context.Context) {
	s.ctx = ctx
	if ctx.Done() == s.done {
		return
	}
	s.forget()
	if ctx.Done() == nil {
		return
	}
	told := make(chan struct{})
	cut := context.AfterFunc(ctx, func() {
		s.pool.Stop()
		close(told)
	})
	s.done = ctx.Done()
	s.deaf = func() {
		if !cut() {
			<-told
		}
	}
}

// forget ends that, and makes the workers ready for another run.
func (s *Session) forget() {
	if s.deaf != nil {
		s.deaf()
		s.deaf, s.done = nil, nil
		s.pool.Resume()
	}
}

// enter notes which node runs. A run whose context is over ends here, even if
// nobody has told the workers yet.
func (st *step) enter() {
	s := st.f.s
	s.now.Store(st)
	if s.ctx.Err() != nil {
		s.pool.Stop()
	}
	s.pool.Poll()
}

// Stopping implements kernel.Runtime.
func (st *step) Stopping() bool { return st.f.s.pool.Stopping() }

// stopped is the error of a run that its context ended; nil for another panic.
func (s *Session) stopped(r any) error {
	if r != any(work.ErrStopped) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrStopped, context.Cause(s.ctx))
}

// Running is the node that the session runs, as errors name it; "" if none has
// run. It may be called from another goroutine than Run.
func (s *Session) Running() string {
	st := s.now.Load()
	if st == nil {
		return ""
	}
	return st.f.g.Label(st.node)
}

// copyBytes copies bytes, and polls where they are many.
func (s *Session) copyBytes(to, from []byte) {
	s.pool.Steps(min(len(to), len(from)), func(i, j int) { copy(to[i:j], from[i:j]) })
}

// torn marks parameters and states as lost if a run failed after it began to
// overwrite them: some are from before the step, others from after it.
func (s *Session) torn() {
	// Those that lie apart are all written when a run is over.
	if !s.opt.Apart && s.tape.next > s.update {
		clear(s.ready)
	}
}

// firstUpdate is the first step that writes over a parameter or state.
func (s *Session) firstUpdate() int {
	shares := map[string]bool{} // what lies in their buffers
	for i := range s.pr.p.Buffers {
		b := &s.pr.p.Buffers[i]
		if b.Kind != plan.KindParameter && b.Kind != plan.KindState {
			continue
		}
		for _, name := range b.Tensors {
			shares[name] = true
		}
	}
	for i, st := range s.main.steps {
		for _, t := range st.out {
			if t != nil && shares[t.name] {
				return i
			}
		}
	}
	return len(s.main.steps)
}
