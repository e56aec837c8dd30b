package passes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// infer sets the type and size of every tensor, leaves to the nodes what Options.Runtime
// shares, and notes the inputs of nodes whose
// element types their opset does not permit.
func infer(_ context.Context, s *State) error {
	var err error
	if s.inference, err = s.infer(s.model); err != nil {
		return s.atCorner(err)
	}
	if s.inferred == (inferred{}) {
		s.inferred = inferredOf(s.model.Graph)
	}
	return s.checkPermitted()
}

// infer sets the types and the sharing of a model, which is the present one or made of it.
func (s *State) infer(m *graph.Model) (*ops.Inference, error) {
	return s.bind.Infer(m)
}

// atCorner says of an error of inference which lengths it is for, where a plan has ranges.
func (s *State) atCorner(err error) error {
	e := new(graph.Error)
	if s.ranged == nil || !errors.As(err, &e) {
		return err
	}
	box := s.ranged.Box
	lengths, at := box.At(box.Corner()), []string{}
	for _, name := range box.Names {
		at = append(at, fmt.Sprintf("%s=%d", graph.Short(name), lengths[name]))
	}
	placed := *e
	placed.Err = fmt.Errorf("%w (at %s, the largest lengths of the range: expected some that the model permits)", e.Err, strings.Join(at, ", "))
	return &placed
}

// checkPermitted sets the warnings about element types that an opset does not permit: the
// first few, and how many there are. With Options.Strict, the first one is an error.
func (s *State) checkPermitted() error {
	const most = 5
	list, all := ops.UnpermittedInputs(s.model, most)
	s.unpermitted = nil
	for _, u := range list {
		if s.opt.Strict {
			return graph.Errorf("%s", u.Text()).AtNode(u.Node)
		}
		s.unpermitted = append(s.unpermitted, u.Node+": "+u.Text()+": runtimes that follow the specification refuse the model")
	}
	if n := all - len(list); n > 0 {
		s.unpermitted = append(s.unpermitted, fmt.Sprintf("… and %d more inputs of element types that the opset does not permit", n))
	}
	return nil
}

// warnings are those of inference.
func (s *State) warnings() []string {
	return append(append([]string(nil), s.inference.Warnings...), s.unpermitted...)
}

// shared returns a model that was made of the present one, with the storages of its main
// graph and the workspaces of its nodes.
func (s *State) shared(ctx context.Context, m *graph.Model, x *planner.Search) (*planner.Trial, error) {
	return s.bind.Trial(ctx, m, s.rules(), x)
}
