package vm

import (
	"context"

	"github.com/onnxmem/onnxmem/vm/internal/exec"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Session runs a program. Only one goroutine may use it at a time. Several sessions
// of one program share its weights and its memory limit, and nothing else.
type Session struct {
	p  *program.Program
	x  *exec.Session
	in map[string]values.Value // of the run: one map for all

	outputs map[string]Value // of the last run, as it returned them
}

// NewSession lays out memory and prepares a kernel for every node. It fails, with
// an error of type *graph.Error, if a node has no kernel.
//
// If the plan is for ranges of dimensions, it does that for each point when Run first
// meets its shapes, and keeps the last 32 points. The arena grows, in address space that
// is reserved at once, to that of the largest point so far. Such a session takes no
// device; the program of one point (At) does.
func (p *Program) NewSession(opt Options) (*Session, error) {
	x, err := exec.NewSession(p.p, opt.below())
	if err != nil {
		return nil, err
	}
	g := p.p.Model.Graph // its numbers: so that the first run allocates no more than the others
	return &Session{p: p.p, x: x, in: make(map[string]values.Value, len(g.Inputs)), outputs: make(map[string]Value, len(g.Outputs))}, nil
}

// Close frees the session's memory. Outputs of Run must not be used afterwards.
func (s *Session) Close() error { return s.x.Close() }

// Set sets the value of a parameter or state, which stays until a step updates it.
func (s *Session) Set(name string, v Value) error { return s.x.Set(name, v.inner()) }

// Run runs the model once. inputs must have a value for every graph input, except
// for parameters and states that already have one. The outputs lie in the session's
// memory and are valid until its next Run or Close; Clone those that are needed for
// longer. If ctx ends first, the run stops within some milliseconds, with an error
// that wraps ErrStopped and the context's cause and names the running node; the
// session can run again. A run that fails after it began to update parameters and
// states loses them: they must be set again.
func (s *Session) Run(ctx context.Context, inputs map[string]Value) (map[string]Value, error) {
	for name, v := range inputs {
		s.in[name] = v.inner()
	}
	defer clear(s.in) // the caller's memory is the caller's again
	out, err := s.x.Run(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for name, v := range out {
		s.outputs[name] = outer(v)
	}
	return s.outputs, nil
}

// Updates returns the new values of parameters, states and caches that the last run made, by
// the names of the outputs. They lie in the session's memory, as those of Run, and are valid
// until its next Run, Set, Reset, Restore or Close.
func (s *Session) Updates() (map[string]Value, error) {
	made, err := s.x.Updates()
	if err != nil {
		return nil, err
	}
	list := make(map[string]Value, len(made))
	for name, v := range made {
		list[name] = outer(v)
	}
	return list, nil
}

// Running returns the node that the session is running, or ran last, as errors name
// it; "" if none has run. It may be called from another goroutine than Run.
func (s *Session) Running() string { return s.x.Running() }

// Reset fills all caches with zeros, as in a new session. Parameters and states of a
// training graph stay as they are. No run may be in progress.
func (s *Session) Reset() error { return s.x.Reset() }

// Snapshot is what the caches of a session held. It belongs to no session.
type Snapshot struct{ x exec.Snapshot }

// Bytes is the size of the values.
func (p Snapshot) Bytes() int64 { return p.x.Bytes() }

// Snapshot copies the caches: a prompt that several continuations share is run once. No
// run may be in progress.
func (s *Session) Snapshot() (Snapshot, error) {
	x, err := s.x.Snapshot()
	return Snapshot{x}, err
}

// Restore sets all caches to what they held at a snapshot of a session of this program.
// No run may be in progress.
func (s *Session) Restore(p Snapshot) error { return s.x.Restore(p.x) }
