package passes

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// check tests the invariants that hold after every pass.
func check(s *State) error {
	if err := graph.Check(s.now.Model); err != nil {
		return err
	}
	if s.now.Main == nil || s.graphChanged {
		return nil
	}
	if s.now.Main.G != s.now.Model.Graph {
		return fmt.Errorf("the model's graph is not the one that was planned: expected a call of State.Replace or State.Invalidate")
	}
	return checkRegion(s.now.Main)
}

// checkRegion tests the invariants of a region and of the bodies within it.
func checkRegion(r *planner.Region) error {
	g := r.G
	if len(r.StorageOf) != len(g.Tensors) || len(r.Workspace) != len(g.Nodes) {
		return fmt.Errorf("%d tensors and %d nodes are known, the graph has %d and %d: expected a call of State.Invalidate after a change", len(r.StorageOf), len(r.Workspace), len(g.Tensors), len(g.Nodes))
	}
	for id, t := range g.Tensors {
		i := r.StorageOf[id]
		switch {
		case i == planner.NoStorage && t.Dynamic == "" && t.Data == nil:
			return fmt.Errorf("tensor %q has no storage", t.Name)
		case i == planner.NoStorage:
			continue
		case i < 0 || int(i) >= len(r.Storages):
			return fmt.Errorf("tensor %q has storage %d, but there are only %d", t.Name, i, len(r.Storages))
		}
	}
	if r.Solved == nil {
		return nil
	}
	for i, n := range g.Nodes {
		var err error
		n.Reads(func(t graph.TensorID) {
			if g.Tensors[t].Maker >= graph.NodeID(i) {
				err = fmt.Errorf("%s runs before the node that makes its input %q", g.Label(graph.NodeID(i)), g.Tensors[t].Name)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, b := range r.Bodies {
		if err := checkRegion(b.R); err != nil {
			return fmt.Errorf("%s: attribute %q: %w", g.Label(b.Node), b.Attr, err)
		}
	}
	return nil
}
