package lower

import (
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// prepareAll prepares the kernels, in the listed order, which is that of the plan's bodies.
func (l *lowering) prepareAll() error {
	for _, st := range l.f.Steps {
		l.at = st
		if l.f.Graph == l.s.Program.Model.Graph {
			l.workspace = l.workspaceOf(st.ID)
		}
		if err := l.prepare(st); err != nil {
			return err
		}
		st.dropCall()
	}
	return nil
}

// prepare finds the kernel of a node, or builds its bodies, and prepares it.
func (l *lowering) prepare(st *Step) error {
	n := st.Node()
	if len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Const {
		return nil
	}
	if special, err := l.control(st, l.opsets, l.a); special || err != nil {
		var e *graph.Error
		if err != nil && !errors.As(err, &e) {
			e = graph.Errorf("%w", err)
			return e.AtNode(st.Frame.Graph.Label(st.ID))
		}
		return err
	}
	if done, err := st.prepareTask(); done {
		switch {
		case err != nil:
			l.s.Missing.add(st.Frame.Graph.Label(st.ID), n.OpName(), err)
			return nil
		case st.Run == nil, st.Device:
			return nil
		}
		_, err := l.s.ScratchFor(st)
		return err
	}
	if do := st.boxer(); do != nil {
		st.Run, st.Boxes = st.runBoxer(do), true
		return nil
	}
	if st.Kernel = kernel.Lookup(n.Domain, n.Op); st.Kernel == nil {
		l.s.Missing.add(st.Frame.Graph.Label(st.ID), n.OpName(), ErrNoKernel)
		return nil
	}
	switch open, err := st.check(); {
	case err != nil && !l.inBranch:
		return graph.Errorf("%w", err).AtNode(st.Frame.Graph.Label(st.ID))
	case err != nil, open, !st.Exact():
		// Its shapes are unknown, or unproven, before it runs; or the node is wrong
		// for these shapes, but in a branch that may never run.
		st.Late = true
		return nil
	case st.Idle() || st.inPlace():
		return nil
	}
	if done, err := l.prepareOnDevice(st); done || err != nil {
		return err
	}
	err := l.fuse(st)
	if errors.Is(err, form.ErrDataDependent) {
		st.Late = true
		return nil
	}
	if err != nil {
		l.s.Missing.add(st.Frame.Graph.Label(st.ID), n.OpName(), err)
		return nil
	}
	st.describe(st.Call().Way)
	_, err = l.s.ScratchFor(st)
	return err
}

// PrepareLate finds the shapes of the outputs and prepares the kernel at run time,
// from the actual inputs.
func (st *Step) PrepareLate() error {
	st.live = true
	defer func() { st.live = false }()
	if _, err := st.check(); err != nil {
		return err
	}
	st.Run = nil
	if st.Idle() {
		return nil
	}
	st.freeTables()
	st.Call().SharedBytes, st.Call().EachBytes = 0, 0
	if w := st.Call().Walls; w != nil {
		w.Reset()
	}
	run, err := st.Kernel.Prepare(st.Call())
	if err != nil {
		return err
	}
	st.Run = run
	grown, err := st.Frame.Site.ScratchFor(st)
	if grown {
		return st.Frame.Site.GrowScratch()
	}
	return err
}
