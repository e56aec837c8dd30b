package exec

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// do runs the node. It returns a panic of the kernel as an error.
func (s *Session) do(st *lower.Step) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = st.Wrap(s.panicked(r))
		}
	}()
	s.enter(st)
	if err := s.gpu.before(st); err != nil {
		return st.Wrap(err)
	}
	if st.Late {
		if err := st.PrepareLate(); err != nil {
			return st.Wrap(err)
		}
	}
	if s.Options.Poison && s.Mem.Guard == nil {
		s.poisonScratch(st)
	}
	if s.watch.comparer != nil {
		s.ToHost(st.In...)
		s.watch.comparer.before(st)
	}
	if st.Run != nil {
		if s.Mem.Guard != nil {
			st.UseScratch(s.Pool)
		}
		if err := st.Run(s.Pool); err != nil {
			return st.Wrap(err)
		}
		s.gpu.after(st)
		if s.Mem.Guard != nil {
			if err := s.checkGuards(st); err != nil {
				return st.Wrap(err)
			}
		}
	}
	if s.watch.comparer != nil {
		s.ToHost(st.Out...)
		s.watch.comparer.after(st)
	}
	if st.More != nil {
		for _, t := range st.More.Frees {
			s.Release(t)
		}
	}
	return nil
}

// ends returns the tensors of a list of inputs or outputs.
func ends(f *lower.Frame, ids []graph.TensorID) (list []*values.Tensor) {
	for _, id := range ids {
		list = append(list, f.Tensors[id])
	}
	return list
}

// runAll runs the nodes of a body or function.
func (s *Session) runAll(f *lower.Frame) error {
	if s.watch.comparer != nil {
		s.ToHost(ends(f, f.Graph.Inputs)...)
	}
	s.watch.comparer.enter(f)
	for _, st := range f.Steps {
		if err := s.do(st); err != nil {
			return err
		}
	}
	if s.watch.comparer != nil {
		s.ToHost(ends(f, f.Graph.Outputs)...)
	}
	s.watch.comparer.leave(f)
	return nil
}

// enter records the running node. If the run's context has ended, the run stops here,
// even before the workers are notified.
func (s *Session) enter(st *lower.Step) {
	s.control.now.Store(st)
	if s.outer != nil {
		s.outer.control.now.Store(st)
	}
	if s.control.ctx.Err() != nil {
		s.Pool.Stop()
	}
	s.Pool.Poll()
}
