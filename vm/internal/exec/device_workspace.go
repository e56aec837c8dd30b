package exec

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
)

// workspace is where the scratch of a node of the main graph lies on the device: that of
// its kernel, or of the nodes of its bodies and functions, which run one after another.
type workspace struct {
	node  graph.NodeID
	space gpu.Workspace // empty: the session's scratch
}

// workspaceOf returns the place that the plan has for the scratch of a node of the main
// graph: the end of its workspace, behind what bodies and functions take.
func (g *device) workspaceOf(n graph.NodeID, a *area) workspace {
	w := workspace{node: n}
	if g == nil {
		return w
	}
	if at, planned := a.scratch[n]; planned { // else nothing was recorded, or every tensor is apart
		if p, found := g.address(at.at); found {
			w.space = gpu.Workspace{At: p, Bytes: at.bytes}
		}
	}
	return w
}

// address returns the place on the device of an address in one of the pools.
func (g *device) address(at unsafe.Pointer) (driver.Ptr, bool) {
	for _, m := range g.mirrors {
		if off := uintptr(at) - uintptr(m.host.At(m.from)); off < uintptr(m.dev.Bytes) {
			return m.dev.At + driver.Ptr(off), true
		}
	}
	return 0, false
}

// Workspaces returns the scratch that the kernels of the nodes take on the session's GPU,
// for passes.Options.Workspaces; nil if it has none. Tool is the caller's to set.
func (s *Session) Workspaces() *plan.Recording {
	if s.gpu == nil {
		return nil
	}
	p := s.pr.Plan
	w := &plan.Recording{
		Format: plan.RecordingFormat, Version: plan.RecordingVersion, Model: p.Model, Source: p.Source,
		Dims: map[string]int64{}, Device: s.gpu.d.Name(), Nodes: []plan.NodeScratch{},
	}
	w.Products, _, _, _ = s.gpu.kernels.Library()
	w.Convolutions, _, _, _ = s.gpu.kernels.ConvolutionLibrary()
	for name, d := range p.Dims {
		w.Dims[name] = d.Value
	}
	for _, n := range slices.Sorted(maps.Keys(s.gpu.scratch)) {
		if bytes := s.gpu.scratch[n]; bytes > 0 && p.Steps[n].Again == nil {
			w.Nodes = append(w.Nodes, plan.NewNodeScratch(s.pr.Model.Graph, n, bytes))
		}
	}
	return w
}
