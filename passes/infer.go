package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/ops"
)

// infer gives every tensor its type and size.
func infer(_ context.Context, s *State) error {
	var err error
	s.inference, err = ops.Infer(s.model, ops.Options{Dims: s.opt.Dims, StrictDims: s.opt.StrictDims, SpareDims: s.opt.SpareDims})
	return err
}
