package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// trial is a model that may become the one that is planned.
type trial struct {
	model     *graph.Model
	inference *ops.Inference
	main      *region
	time      float64 // modelled time of all nodes, in nanoseconds
}

// shared returns a model that was made of the present one, with the storages of its main
// graph and the workspace of its nodes.
func (s *State) shared(ctx context.Context, m *graph.Model, x *search) (*trial, error) {
	found, err := s.infer(m)
	if err != nil {
		return nil, err
	}
	r, err := s.rules().shared(m, found.Given, map[*graph.Call]*region{})
	if err != nil {
		return nil, err
	}
	return &trial{model: m, inference: found, main: r}, r.planBodies(ctx, x)
}
