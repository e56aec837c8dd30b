package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// What tests of sessions see of them: each looks at, or changes, one thing that callers cannot.

// JoinedQuantized lists the names of the nodes that are computed from and to bytes.
func (f *Frame) JoinedQuantized() []string {
	var list []string
	for _, st := range f.Steps {
		if st.Has().Joined != nil {
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
	return f.held(func(t *values.Tensor) bool { return t.Planes != 0 })
}

// HeldInNHWC lists the tensors of the main graph whose images are held in NHWC.
func (f *Frame) HeldInNHWC() []string {
	return f.held(func(t *values.Tensor) bool { return t.Pixels })
}

// HeldInNCHW16c lists the tensors of the main graph whose images are held in NCHW16c.
func (f *Frame) HeldInNCHW16c() []string {
	return f.held(func(t *values.Tensor) bool { return t.Blocks })
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

// Lowered describes the steps of the main graph.
func (f *Frame) Lowered() string {
	var b strings.Builder
	for _, st := range f.Steps {
		fmt.Fprintf(&b, "%s: %s;", st.Frame.Graph.Label(st.ID), st.Way)
		for _, flag := range []struct {
			name string
			is   bool
		}{
			{"once", st.Once()},
			{"copies", st.copiesBytes()},
			{"absorbed", st.absorbed()},
			{"device", st.Device},
			{"runs", st.Run != nil},
			{"joined", st.Has().Joined != nil},
			{"task", st.Task() != nil},
		} {
			if flag.is {
				fmt.Fprintf(&b, " %s", flag.name)
			}
		}
		if st.Elsewhere() {
			fmt.Fprintf(&b, " into %s", st.Frame.Graph.Label(st.DoneAt().ID))
		}
		for _, t := range st.Out {
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
func (f *Frame) CheckMoved(node, to string, covers bool) error {
	l := &lowering{builder: &builder{s: f.Site}, a: newArea(f.Graph)}
	var from, at *Step
	by := make([]*Step, len(f.Steps))
	for _, st := range f.Steps {
		l.order = append(l.order, st.ID)
		by[st.ID] = st
		switch st.Node().Name {
		case node:
			from = st
		case to:
			at = st
		}
	}
	l.f = f
	f.Steps = by
	if covers {
		both := []*Step{at, from}
		slices.SortFunc(both, func(a, b *Step) int { return int(a.ID - b.ID) })
		at.takes(func(*work.Pool) error { return nil }, both, externalOf(both), slices.Concat(at.Out, from.Out))
	} else {
		from.task = &Task{At: at}
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
