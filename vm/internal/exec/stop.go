package exec

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// control says what a session is doing, and what ends it.
type control struct {
	ctx      context.Context            // of the run
	done     <-chan struct{}            // Done of the context that we listen to
	unlisten func()                     // ends that; nil: no context does
	now      atomic.Pointer[lower.Step] // the node that runs, or ran last
	closed   bool
}

// listen makes the run that is about to begin stop soon after ctx ends. As long as
// runs have the same context it keeps listening, so that a run allocates nothing.
func (s *Session) listen(ctx context.Context) {
	s.control.ctx = ctx
	if s.outer != nil { // which listens
		return
	}
	if ctx.Done() == s.control.done {
		return
	}
	s.stopListening()
	if ctx.Done() == nil {
		return
	}
	told := make(chan struct{})
	cut := context.AfterFunc(ctx, func() {
		s.Pool.Stop()
		close(told)
	})
	s.control.done = ctx.Done()
	s.control.unlisten = func() {
		if !cut() {
			<-told
		}
	}
}

// stopListening undoes listen and makes the workers ready for another run.
func (s *Session) stopListening() {
	if s.control.unlisten != nil {
		s.control.unlisten()
		s.control.unlisten, s.control.done = nil, nil
		s.Pool.Resume()
	}
}

// stopped is the error of a run that its context stopped; nil for another panic.
func (s *Session) stopped(r any) error {
	if r != any(work.ErrStopped) {
		return nil
	}
	return fmt.Errorf("%w: %w", lower.ErrStopped, context.Cause(s.control.ctx))
}

// Running returns the node that the session is running, or ran last, as errors name
// it; "" if none has run. It may be called from another goroutine than Run.
func (s *Session) Running() string {
	st := s.control.now.Load()
	if st == nil {
		return ""
	}
	return st.Frame.Graph.Label(st.ID)
}

// dropTornStates discards the parameters and states if a run failed after it began to
// overwrite them: some would be from before the step, others from after it.
func (s *Session) dropTornStates() {
	// A session with separate tensors writes all of them after the run.
	if !s.Options.Separate && s.tape.next > s.states.first {
		clear(s.states.ready)
	}
}

// firstUpdate is the first step that writes over a parameter or state: where its node stands, or
// where a kernel does the node's work before.
func (s *Session) firstUpdate() int {
	shares := map[string]bool{} // tensors in their buffers
	for i := range s.Program.Plan.Buffers {
		b := &s.Program.Plan.Buffers[i]
		if !plan.Stays(b.Kind) {
			continue
		}
		for _, name := range b.Tensors {
			shares[name] = true
		}
	}
	for i, st := range s.main.Steps {
		written := st.Out
		if task := st.Task(); task != nil {
			written = slices.Concat(written, lower.Tensors(task.Writes))
		}
		for _, t := range written {
			if t != nil && shares[t.Name] {
				return i
			}
		}
	}
	return len(s.main.Steps)
}
