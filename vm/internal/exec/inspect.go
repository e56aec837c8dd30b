package exec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// What tests of sessions see of them: each looks at, or changes, one thing that callers cannot.

// SetRun replaces the kernel of a node until undo is called.
func (s *Session) SetRun(node int, run func(c *kernel.Invocation, w *work.Pool) error) (undo func()) {
	st := s.main.steps[node]
	was := st.run
	st.run = func(w *work.Pool) error { return run(st.call(), w) }
	return func() { st.run = was }
}

// BeforeNode calls f for each node of the main graph, before it runs.
func (s *Session) BeforeNode(f func(node string)) {
	s.tape.before = append(s.tape.before, func(st *step, _ int) { f(st.f.g.Label(st.node)) })
}

// JoinedQuantized lists the names of the nodes that are computed from and to bytes.
func (s *Session) JoinedQuantized() []string {
	var list []string
	for _, st := range s.main.steps {
		if st.has().joined != nil {
			list = append(list, st.n().Name)
		}
	}
	return list
}

// Joins reports whether an operator of ai.onnx may be computed from and to bytes.
func Joins(op string) bool { return joiner(&graph.Node{Op: op}) != nil }

// Bind prepares the point of inputs without running it.
func (s *Session) Bind(inputs map[string]values.Value) error {
	_, err := s.points.bind(inputs)
	return err
}

// Bound is the number of points that a session has prepared so far.
func (s *Session) Bound() int { return s.points.bound }

// held lists the tensors of the main graph that meet a condition.
func (s *Session) held(in func(t *values.Tensor) bool) []string {
	var list []string
	for _, t := range s.main.tensors {
		if t != nil && in(t) {
			list = append(list, t.Name)
		}
	}
	slices.Sort(list)
	return list
}

// HeldInNCHW lists the tensors of the main graph whose images are held in NCHW.
func (s *Session) HeldInNCHW() []string {
	return s.held(func(t *values.Tensor) bool { return t.Planes != 0 })
}

// HeldInNHWC lists the tensors of the main graph whose images are held in NHWC.
func (s *Session) HeldInNHWC() []string {
	return s.held(func(t *values.Tensor) bool { return t.Pixels })
}

// HeldInNCHW16c lists the tensors of the main graph whose images are held in NCHW16c.
func (s *Session) HeldInNCHW16c() []string {
	return s.held(func(t *values.Tensor) bool { return t.Blocks })
}

// Residuals lists the sums that a convolution computes.
func (s *Session) Residuals() []string {
	var list []string
	for _, st := range s.main.steps {
		if t := st.task(); t != nil && st.invocation != nil && st.invocation.Residual != nil {
			list = append(list, t.covers[1].out[0].Name)
		}
	}
	slices.Sort(list)
	return list
}

// Chained lists the names of the nodes that kernels of several nodes compute which no node has by
// itself.
func (s *Session) Chained() []string {
	return s.covered(func(st *step) bool { return st.task().run != nil })
}

// NormGradients lists the names of the nodes whose work kernels for the gradient of a
// normalization do.
func (s *Session) NormGradients() []string {
	return s.covered(func(st *step) bool { return st.way == normGradientWay })
}

// covered lists the names of the nodes in tasks at some steps.
func (s *Session) covered(at func(*step) bool) []string {
	var list []string
	for _, st := range s.main.steps {
		if st.task() == nil || !at(st) {
			continue
		}
		for _, c := range st.task().covers {
			list = append(list, c.n().Name)
		}
	}
	return list
}

// KernelOf returns the name of the node at whose step a kernel does the work of a node.
func (s *Session) KernelOf(name string) string {
	for _, st := range s.main.steps {
		if st.n().Name != name {
			continue
		}
		if st.fusedInto != nil {
			return st.fusedInto.n().Name
		}
	}
	return name
}

// Lowered describes the steps of the main graph.
func (s *Session) Lowered() string {
	var b strings.Builder
	for _, st := range s.main.steps {
		fmt.Fprintf(&b, "%s: %s;", st.f.g.Label(st.node), st.way)
		for _, flag := range []struct {
			name string
			is   bool
		}{
			{"once", st.once()},
			{"copies", st.copiesBytes()},
			{"absorbed", st.absorbed()},
			{"device", st.device},
			{"runs", st.run != nil},
			{"joined", st.has().joined != nil},
			{"task", st.task() != nil},
		} {
			if flag.is {
				fmt.Fprintf(&b, " %s", flag.name)
			}
		}
		if st.fusedInto != nil {
			fmt.Fprintf(&b, " into %s", st.fusedInto.f.g.Label(st.fusedInto.node))
		}
		for _, t := range st.out {
			if t != nil {
				fmt.Fprintf(&b, " (%t %d %t %t)", t.Const, t.Planes, t.Pixels, t.Blocks)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// CheckMoved checks the steps as if the work of a node were done at the step of another one, in a
// task that covers it or not.
func (s *Session) CheckMoved(node, to string, covers bool) error {
	f, l := s.main, &lowering{builder: &builder{s: s}, a: newArea(s.main.g)}
	var from, at *step
	by := make([]*step, len(f.steps))
	for _, st := range f.steps {
		l.order = append(l.order, st.node)
		by[st.node] = st
		switch st.n().Name {
		case node:
			from = st
		case to:
			at = st
		}
	}
	l.f = f
	f.steps = by
	if covers {
		both := []*step{at, from}
		slices.SortFunc(both, func(a, b *step) int { return int(a.node - b.node) })
		at.takes(func(*work.Pool) error { return nil }, both, externalOf(both), slices.Concat(at.out, from.out))
	} else {
		from.fusedInto = at
	}
	return l.check()
}

// HoldNHWC makes sessions hold images in NHWC even where NCHW is as fast, until undo is called.
func HoldNHWC() (undo func()) {
	was := prefersNHWC
	prefersNHWC = func() bool { return true }
	return func() { prefersNHWC = was }
}

// AlwaysCheck says whether sessions check their lowering without being asked.
func AlwaysCheck(on bool) { alwaysChecks = on }

// CheckTable checks a table of rewriters, by their names in the order in which they run.
func CheckTable(names []string) error {
	var list []Rewriter
	for _, name := range names {
		list = append(list, Rewriter{Name: name})
	}
	return checkLowering(list)
}

// LoweringConstraints lists which rewriter must run before which.
func LoweringConstraints() (list [][2]string) {
	for _, c := range loweringConstraints {
		list = append(list, [2]string{c.before, c.after})
	}
	return list
}
