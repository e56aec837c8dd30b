package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// inline replaces the model by one without local functions. The plan does not list the
// buffers of a function, so with ranges of dimensions, which need their stacking, the nodes
// of functions become nodes of the graphs that call them.
func inline(_ context.Context, s *State) error {
	if len(s.opt.Ranges) > 0 && !s.opt.InlineFunctions && len(s.model.Functions) > 0 {
		s.Warn("ranges of dimensions: calls of local functions are replaced by the nodes of the functions")
	} else if !s.opt.InlineFunctions {
		return nil
	}
	m, err := graph.Inline(s.model)
	if err != nil {
		return err
	}
	s.Replace(m)
	return nil
}
