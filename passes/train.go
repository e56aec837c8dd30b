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
func train(ctx context.Context, s *State) error {
	if s.opt.Train == nil {
		return nil
	}
	opt := *s.opt.Train
	opt.Dims, opt.Values, opt.Strict = s.now.Bind.Given.Dims, s.now.Bind.Given.Values, s.now.Bind.Given.Strict
	if s.opt.Precision != nil && s.opt.Precision.Type == graph.Float16 && opt.LossScale == nil {
		opt.LossScale = autodiff.DynamicScale() // small gradients become 0 without it
	}
	opt.StrictDims, opt.SpareDims = s.now.Bind.Given.StrictDims, s.now.Bind.Given.SpareDims
	if opt.FusedGradients == autodiff.FuseDefault && s.opt.Runtime == "" && !s.opt.InlineFunctions {
		opt.FusedGradients = autodiff.FuseOn
	}
	if s.adapters != nil {
		opt.Adapters, opt.FreezeStatistics = s.adapters.Parameters(), true
	}
	var step *autodiff.Step
	var err error
	if s.now.Ranged == nil {
		step, err = autodiff.Train(s.now.Model, opt)
	} else {
		step, err = s.trainRange(ctx, opt)
	}
	if err != nil {
		var option *autodiff.OptionError
		if errors.As(err, &option) {
			return &OptionError{option.Err}
		}
		return err
	}
	if err := s.keepTrained(step); err != nil {
		return err
	}
	s.step = step
	s.Replace(step.Model)
	// The shapes of a training graph are fixed, but for the dimensions with a range. It has
	// only the inputs that it needs.
	s.now.Bind.Given.Dims, s.now.Bind.Given.StrictDims = nil, false
	if s.now.Ranged != nil {
		s.now.Ranged.Given = nil
		s.now.Bind.Given.Dims = s.now.Ranged.Dims(s.now.Ranged.Box.Corner())
	}
	s.now.Bind.Given.Values = maps.Clone(s.now.Bind.Given.Values)
	maps.DeleteFunc(s.now.Bind.Given.Values, func(name string, _ graph.Literal) bool {
		return !slices.ContainsFunc(step.Model.Graph.Inputs, func(t graph.TensorID) bool { return step.Model.Graph.Tensors[t].Name == name })
	})
	return nil
}

// trainRange makes a training step that is right at all points of the ranges.
func (s *State) trainRange(ctx context.Context, opt autodiff.Options) (*autodiff.Step, error) {
	if !s.opt.enumerates(s.now.Ranged.Box) {
		return nil, graph.Errorf("training with ranges of dimensions: %d points are too many to make the step of each: expected fewer, such as LOW..HIGH:STEP, or a larger --points", s.now.Ranged.Box.Points)
	}
	opt.Dims = s.now.Ranged.Given
	return autodiff.TrainRange(ctx, s.now.Model, opt, s.now.Ranged.Lengths, s.opt.RangeProgress)
}
