package passes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// infer sets the type and size of every tensor, leaves to the nodes what Options.Runtime
// shares, and notes the inputs of nodes whose
// element types their opset does not permit.
func infer(_ context.Context, s *State) error {
	var err error
	if s.now.Inference, err = s.now.Bind.Infer(s.now.Model); err != nil {
		return s.atCorner(err)
	}
	if s.inferred == (inferred{}) {
		s.inferred = inferredOf(s.now.Model.Graph)
	}
	return s.checkPermitted()
}

// atCorner says of an error of inference which lengths it is for, where a plan has ranges.
func (s *State) atCorner(err error) error {
	e := new(graph.Error)
	if s.now.Ranged == nil || !errors.As(err, &e) {
		return err
	}
	box := s.now.Ranged.Box
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
	list, all := ops.UnpermittedInputs(s.now.Model, most)
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
	return append(append([]string(nil), s.now.Inference.Warnings...), s.unpermitted...)
}
