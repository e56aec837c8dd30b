package passes

import "github.com/onnxmem/onnxmem/graph"

// inline replaces the model by one without local functions.
func inline(s *State) error {
	if !s.opt.InlineFunctions {
		return nil
	}
	m, err := graph.Inline(s.model)
	if err != nil {
		return err
	}
	if s.model = m; s.step != nil {
		s.step.Model = m
	}
	return nil
}
