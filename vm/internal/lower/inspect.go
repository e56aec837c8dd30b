package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// What tests of sessions see of them: each looks at, or changes, one thing that callers cannot.

// JoinedQuantized lists the names of the nodes that are computed from and to bytes.
func (f *Frame) JoinedQuantized() []string {
	var list []string
	for _, st := range f.Steps {
		if st.Joined() != nil {
			list = append(list, st.Node().Name)
		}
	}
	return list
}

// Joins reports whether an operator of ai.onnx may be computed from and to bytes.
func Joins(op string) bool { return joiner(&graph.Node{Op: op}) != nil }

// held lists the tensors of the main graph that meet a condition.
func (f *Frame) held(in func(t *values.Tensor) bool) []string {
	var list []string
	for _, t := range f.Tensors {
		if t != nil && in(t) {
			list = append(list, t.Name)
		}
	}
	slices.Sort(list)
	return list
}

// HeldInNCHW lists the tensors of the main graph whose images are held in NCHW.
func (f *Frame) HeldInNCHW() []string {
	return f.held(func(t *values.Tensor) bool { return t.Layout == form.NCHW })
}

// HeldInNHWC lists the tensors of the main graph whose images are held in NHWC.
func (f *Frame) HeldInNHWC() []string {
	return f.held(func(t *values.Tensor) bool { return t.Layout == form.NHWC })
}

// HeldInNCHW16c lists the tensors of the main graph whose images are held in NCHW16c.
func (f *Frame) HeldInNCHW16c() []string {
	return f.held(func(t *values.Tensor) bool { return t.Layout == form.NCHW16c })
}

// Residuals lists the sums that a convolution computes.
func (f *Frame) Residuals() []string {
	var list []string
	for _, st := range f.Steps {
		if t := st.Task(); t != nil && st.Invocation != nil && st.Invocation.Residual != nil {
			list = append(list, t.Covers[1].Out[0].Name)
		}
	}
	slices.Sort(list)
	return list
}

// Chained lists the names of the nodes that kernels of several nodes compute which no node has by
// itself.
func (f *Frame) Chained() []string {
	return f.covered(func(st *Step) bool { return st.Task().run != nil })
}

// NormGradients lists the names of the nodes whose work kernels for the gradient of a
// normalization do.
func (f *Frame) NormGradients() []string {
	return f.covered(func(st *Step) bool { return st.Way == normGradientWay })
}

// covered lists the names of the nodes in tasks at some steps.
func (f *Frame) covered(at func(*Step) bool) []string {
	var list []string
	for _, st := range f.Steps {
		if st.Task() == nil || !at(st) {
			continue
		}
		for _, c := range st.Task().Covers {
			list = append(list, c.Node().Name)
		}
	}
	return list
}

// KernelOf returns the name of the node at whose step a kernel does the work of a node.
func (f *Frame) KernelOf(name string) string {
	for _, st := range f.Steps {
		if st.Node().Name != name {
			continue
		}
		return st.DoneAt().Node().Name
	}
	return name
}

// Lowered lists the tasks of the main graph, a line for each node: at which step its work is done,
// and there which nodes are covered, what is read and written in which form, and how.
func (f *Frame) Lowered() string {
	var b strings.Builder
	for _, st := range f.Steps {
		fmt.Fprintf(&b, "%s: %s\n", f.Graph.Label(st.ID), st.line())
	}
	return b.String()
}

// line describes what happens at a step.
func (st *Step) line() string {
	switch {
	case st.Once():
		return "computed before the first run"
	case st.Elsewhere():
		return "in the task of " + st.Frame.Graph.Label(st.DoneAt().ID)
	}
	var parts []string
	if t := st.Task(); t != nil {
		names := make([]string, len(t.Covers))
		for i, c := range t.Covers {
			names[i] = c.Node().Name
		}
		parts = append(parts, "covers "+strings.Join(names, " "))
	}
	reads, writes := st.accesses()
	for _, list := range []struct {
		does   string
		places []Place
	}{{"reads ", reads}, {"writes ", writes}} {
		if len(list.places) == 0 {
			continue
		}
		texts := make([]string, len(list.places))
		for i, p := range list.places {
			texts[i] = p.String()
		}
		parts = append(parts, list.does+strings.Join(texts, ", "))
	}
	switch {
	case st.Device:
		parts = append(parts, "on the device")
	case st.Run == nil && !st.Late:
		parts = append(parts, "nothing to do")
	}
	if st.Way == "" {
		return strings.Join(append(parts, st.Node().OpName()), "; ")
	}
	return strings.Join(append(parts, st.Way), "; ")
}

// CheckMoved checks the steps as if the work of a node were done at the step of another one, in a
// task that covers it or not.
func (f *Frame) CheckMoved(node, to string, covers bool) error {
	l := &lowering{builder: &builder{s: f.Site}, f: f, a: newArea(f.Graph)}
	by := make([]*Step, len(f.Steps))
	for _, st := range f.Steps {
		l.order = append(l.order, st.ID)
		by[st.ID] = st
	}
	f.Steps = by
	l.move(node, to, covers)
	return l.check()
}

// move moves the work of a node to the step of another one.
func (l *lowering) move(node, to string, covers bool) {
	var from, at *Step
	for _, st := range l.f.Steps {
		switch st.Node().Name {
		case node:
			from = st
		case to:
			at = st
		}
	}
	if !covers {
		from.task = &Task{At: at}
		return
	}
	both := []*Step{at, from}
	slices.SortFunc(both, func(a, b *Step) int { return int(a.ID - b.ID) })
	at.takes(func(*work.Pool) error { return nil }, both, externalOf(both), slices.Concat(at.Out, from.Out))
}

// lastRewriter is a variable for tests: one more rewriter.
var lastRewriter []Rewriter

// LastRewriter makes sessions run one more rewriter, which moves the work of a node to the step of
// another one, until undo is called.
func LastRewriter(name, node, to string) (undo func()) {
	lastRewriter = []Rewriter{{Name: name, On: OnBoth, run: func(l *lowering) error {
		l.move(node, to, true)
		return nil
	}}}
	return func() { lastRewriter = nil }
}

// HoldNHWC makes sessions hold images in NHWC even where NCHW is as fast, until undo is called.
func HoldNHWC() (undo func()) {
	was := prefersNHWC
	prefersNHWC = func(*kernel.Invocation) bool { return true }
	return func() { prefersNHWC = was }
}

// Check says when sessions check their lowering, until undo is called.
func Check(when Checks) (undo func()) {
	was := checked
	checked = when
	return func() { checked = was }
}

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
