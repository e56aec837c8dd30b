package passes

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
)

// train replaces the model by the graph of one training step.
func train(_ context.Context, s *State) error {
	if s.opt.Train == nil {
		return nil
	}
	opt := *s.opt.Train
	opt.Dims, opt.Values, opt.Strict = s.opt.Dims, s.opt.Values, s.opt.Strict
	opt.StrictDims, opt.SpareDims = s.opt.StrictDims, s.opt.SpareDims
	step, err := autodiff.Train(s.model, opt)
	if err != nil {
		var option *autodiff.OptionError
		if errors.As(err, &option) {
			return &OptionError{option.Err}
		}
		return err
	}
	s.step = step
	s.Replace(step.Model)
	// The shapes of a training graph are fixed. It has only the inputs that it needs.
	s.opt.Dims, s.opt.StrictDims = nil, false
	s.opt.Values = maps.Clone(s.opt.Values)
	maps.DeleteFunc(s.opt.Values, func(name string, _ graph.Literal) bool {
		return !slices.ContainsFunc(step.Model.Graph.Inputs, func(t graph.TensorID) bool { return step.Model.Graph.Tensors[t].Name == name })
	})
	return nil
}
