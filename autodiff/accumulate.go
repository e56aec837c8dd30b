package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
)

// Several runs of a step can be one update: each adds its gradients, divided by the
// number of runs, to sums beside the parameters, and every n-th run updates the
// parameters; the next one begins the sums again. A counter in the graph says which run
// it is, so that one file, one plan and one loop do. A run that does not update computes
// updates by 0; an If around all updates would save that, but begin none of them before
// the last gradient is there.
const (
	microStepName = "micro_step"
	sumSuffix     = ".grad_sum"

	mostMicroSteps = 1 << 20
)

// accumulate adds the gradients to their sums. s.reduced are then the sums.
func (s *trainer) accumulate() error {
	s.reduced = append([]ID(nil), s.grads...)
	if s.opt.Accumulate <= 1 {
		return nil
	}
	s.phase, s.of, s.scope = phaseAccumulate, microStepName, microStepName+"/"
	defer func() { s.of, s.scope = "", "" }()
	old, err := s.counter(microStepName)
	if err != nil {
		return err
	}
	first := s.op("Equal", old, s.index(0))
	s.due = s.op("Equal", old, s.index(int64(s.opt.Accumulate-1)))
	s.replace(old, s.where(s.due, s.index(0), s.add(old, s.index(1))))
	for i, w := range s.parameters {
		name := s.g.Tensors[w].Name
		s.of, s.scope = name, name+sumSuffix+"/"
		sum := s.state(s.grads[i], name+sumSuffix)
		s.reduced[i] = s.add(s.where(first, s.scalar(sum, 0), sum), s.grads[i])
		s.replace(sum, s.reduced[i])
	}
	return nil
}

// counter adds a state that is a number, initially 0.
func (s *trainer) counter(name string) (ID, error) {
	t := s.newTensor("", graph.TensorOf(graph.Int64), nil)
	s.g.Tensors[t].Data = &graph.Data{Type: graph.Int64, Raw: make([]byte, 8), Bytes: 8}
	return t, s.claimName(t, name)
}
