package passes

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// inline replaces the model by one without local functions. The plan does not list the
// buffers of a function, so with ranges of dimensions, which need their stacking, the nodes
// of functions become nodes of the graphs that call them. A function of ours has no buffers.
func inline(_ context.Context, s *State) error {
	foreign := slices.ContainsFunc(s.now.Model.Functions, func(f *graph.Function) bool { return !f.Own() })
	if len(s.opt.Ranges) > 0 && !s.opt.InlineFunctions && foreign {
		s.Warn("ranges of dimensions: calls of local functions are replaced by the nodes of the functions")
	} else if !s.opt.InlineFunctions {
		return nil
	}
	m, err := graph.Inline(s.now.Model)
	if err != nil {
		return err
	}
	s.Replace(m)
	return nil
}
