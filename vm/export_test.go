package vm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func init() { alwaysChecks = true }

// UncheckedLowering lets sessions have wrong plans, which the check between rewriters would find,
// until the test ends.
func UncheckedLowering(t testing.TB) {
	alwaysChecks = false
	t.Cleanup(func() { alwaysChecks = true })
}

// SetMostInline changes the number of bytes of elements that a model file may hold, and
// returns the old number.
func SetMostInline(n int64) int64 {
	was := mostInline
	mostInline = n
	return was
}

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
func (s *Session) Bind(inputs map[string]Value) error {
	_, err := s.points.bind(inputs)
	return err
}

// Bound is the number of points that a session has prepared so far.
func (s *Session) Bound() int { return s.points.bound }

// AddShared makes the plan share the buffer of a tensor with that of one that its node
// reads.
func (p *Program) AddShared(name, with string) {
	named := byName(p.m.Graph)
	l := &p.ranged.layers[0]
	l.shared = append(l.shared, sharedTensor{id: named[name], before: []graph.TensorID{named[with]}})
}

// Taken is the number of bytes that the program and its sessions have in use.
func (p *Program) Taken() int64 { return p.consts.mem.Of.Taken() }

// Kept counts the constants that a node computes for products and that stay in
// memory, because some product has not packed them.
func (p *Program) Kept() (n int) {
	for _, m := range p.consts.made {
		if m.kept {
			n++
		}
	}
	return n
}

// held lists the tensors of the main graph that meet a condition.
func (s *Session) held(in func(t *tensor) bool) []string {
	var list []string
	for _, t := range s.main.tensors {
		if t != nil && in(t) {
			list = append(list, t.name)
		}
	}
	slices.Sort(list)
	return list
}

// HeldInNCHW lists the tensors of the main graph whose images are held in NCHW.
func (s *Session) HeldInNCHW() []string {
	return s.held(func(t *tensor) bool { return t.Planes != 0 })
}

// HoldNHWC makes sessions hold images in NHWC even where NCHW is as fast, until the test
// ends.
func HoldNHWC(t testing.TB) {
	was := prefersNHWC
	prefersNHWC = func() bool { return true }
	t.Cleanup(func() { prefersNHWC = was })
}

// HeldInNHWC lists the tensors of the main graph whose images are held in NHWC.
func (s *Session) HeldInNHWC() []string {
	return s.held(func(t *tensor) bool { return t.Pixels })
}

// HeldInNCHW16c lists the tensors of the main graph whose images are held in NCHW16c.
func (s *Session) HeldInNCHW16c() []string {
	return s.held(func(t *tensor) bool { return t.Blocks })
}

// Residuals lists the sums that a convolution computes.
func (s *Session) Residuals() []string {
	var list []string
	for _, st := range s.main.steps {
		if t := st.task(); t != nil && t.run == nil && t.covers[1].n().Op == "Add" {
			list = append(list, t.covers[1].out[0].name)
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

// Nodes returns the number of nodes of the main graph.
func (p *Program) Nodes() int { return len(p.m.Graph.Nodes) }

// SharedPacks counts the packed constants that programs can share, and their users.
func SharedPacks() (packs, users int) {
	sharedPacks.Lock()
	defer sharedPacks.Unlock()
	for _, p := range sharedPacks.at {
		users += p.users
	}
	return len(sharedPacks.at), users
}

// CheckLowering checks the table of rewriters, or that with two rows exchanged.
func CheckLowering(list []Rewriter) error { return checkLowering(list) }

// LoweringConstraints lists which rewriter must run before which.
func LoweringConstraints() (list [][2]string) {
	for _, c := range loweringConstraints {
		list = append(list, [2]string{c.before, c.after})
	}
	return list
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
