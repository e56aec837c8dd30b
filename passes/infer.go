package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/ops"
)

// infer sets the type and size of every tensor.
func infer(_ context.Context, s *State) error {
	var err error
	s.inference, err = ops.Infer(s.model, ops.Options{Dims: s.opt.Dims, Values: s.opt.Values, StrictDims: s.opt.StrictDims, SpareDims: s.opt.SpareDims, Strict: s.opt.Strict})
	return err
}
