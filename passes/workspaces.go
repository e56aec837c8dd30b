package passes

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
)

// recorded gives the nodes of the main graph the workspaces of Options.Workspaces.
func (s *State) recorded() error {
	w := s.opt.Workspaces
	if w == nil {
		return nil
	}
	if err := w.Of(plan.SourceOf(s.given)); err != nil {
		return graph.Errorf("%w", err)
	}
	dims := s.dims()
	for name, length := range w.Dims {
		if d, known := dims[name]; known && d.Value != length {
			return graph.Errorf("the workspaces were recorded with dimension %q = %d, expected %d: run the model with that length and --workspaces-out", graph.Short(name), length, d.Value)
		}
	}
	scratch, err := w.Steps(s.now.Main.G)
	if err != nil {
		return graph.Errorf("%w", err)
	}
	s.now.Main.AddScratch(scratch)
	return nil
}

// planWorkspaces lists the recorded workspaces for the plan; nil if none were given.
func (s *State) planWorkspaces(r *planner.Region) *plan.Workspaces {
	if s.opt.Workspaces == nil {
		return nil
	}
	from := s.opt.Workspaces
	w := &plan.Workspaces{Device: from.Device, Products: from.Products, Convolutions: from.Convolutions, Nodes: []plan.StepWorkspace{}}
	for step, bytes := range r.Scratch {
		if bytes > 0 {
			w.Nodes = append(w.Nodes, plan.StepWorkspace{Step: step, Bytes: bytes})
		}
	}
	return w
}
