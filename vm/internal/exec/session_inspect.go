package exec

import (
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// What tests of sessions see of them: each looks at, or changes, one thing that callers cannot.

// Main is the frame of the main graph.
func (s *Session) Main() *lower.Frame { return s.main }

// SetRun replaces the kernel of a node until undo is called.
func (s *Session) SetRun(node int, run func(c *kernel.Invocation, w *work.Pool) error) (undo func()) {
	st := s.main.Steps[node]
	was := st.Run
	st.Run = func(w *work.Pool) error { return run(st.Call(), w) }
	return func() { st.Run = was }
}

// BeforeNode calls f for each node of the main graph, before it runs.
func (s *Session) BeforeNode(f func(node string)) {
	s.tape.before = append(s.tape.before, func(st *lower.Step, _ int) { f(st.Frame.Graph.Label(st.ID)) })
}

// Bind prepares the point of inputs without running it.
func (s *Session) Bind(inputs map[string]values.Value) error {
	_, err := s.points.bind(inputs)
	return err
}

// Bound is the number of points that a session has prepared so far.
func (s *Session) Bound() int { return s.points.bound }
