package exec

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/plan"
)

// Workspaces returns the scratch that the kernels of the nodes take on the session's GPU,
// for passes.Options.Workspaces; nil if it has none. Tool is the caller's to set.
func (s *Session) Workspaces() *plan.Recording {
	if s.gpu == nil {
		return nil
	}
	p := s.Program.Plan
	w := &plan.Recording{
		Format: plan.RecordingFormat, Version: plan.RecordingVersion, Model: p.Model, Source: p.Source,
		Dims: map[string]int64{}, Device: s.gpu.Device.Name(), Nodes: []plan.NodeScratch{},
	}
	w.Products, _, _, _ = s.gpu.Kernels.Library()
	w.Convolutions, _, _, _ = s.gpu.Kernels.ConvolutionLibrary()
	for name, d := range p.Dims {
		w.Dims[name] = d.Value
	}
	for _, n := range slices.Sorted(maps.Keys(s.gpu.Scratch)) {
		if bytes := s.gpu.Scratch[n]; bytes > 0 && p.Steps[n].Again == nil {
			w.Nodes = append(w.Nodes, plan.NewNodeScratch(s.Program.Model.Graph, n, bytes))
		}
	}
	return w
}
