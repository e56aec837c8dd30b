package passes

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/autodiff"
)

// train replaces the model by the graph of one training step.
func train(_ context.Context, s *State) error {
	if s.opt.Train == nil {
		return nil
	}
	opt := *s.opt.Train
	opt.Dims, opt.StrictDims, opt.SpareDims, opt.Strict = s.opt.Dims, s.opt.StrictDims, s.opt.SpareDims, s.opt.Strict
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
	// The shapes of a training graph are fixed.
	s.opt.Dims, s.opt.StrictDims = nil, false
	return nil
}
