package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// inline replaces the model by one without local functions.
func inline(_ context.Context, s *State) error {
	if !s.opt.InlineFunctions {
		return nil
	}
	m, err := graph.Inline(s.model)
	if err != nil {
		return err
	}
	s.Replace(m)
	return nil
}
