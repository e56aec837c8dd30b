package passes

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// check tests the invariants that hold after every pass.
func check(s *State) error {
	if err := graph.Check(s.model); err != nil {
		return err
	}
	if s.main == nil || s.graphChanged {
		return nil
	}
	if s.main.g != s.model.Graph {
		return fmt.Errorf("the model's graph is not the one that was planned: expected a call of State.Replace or State.Invalidate")
	}
	return s.main.check()
}

// check tests the invariants of a region and of the bodies within it.
func (r *region) check() error {
	g := r.g
	if len(r.storageOf) != len(g.Tensors) || len(r.workspace) != len(g.Nodes) {
		return fmt.Errorf("%d tensors and %d nodes are known, the graph has %d and %d: expected a call of State.Invalidate after a change", len(r.storageOf), len(r.workspace), len(g.Tensors), len(g.Nodes))
	}
	for id, t := range g.Tensors {
		i := r.storageOf[id]
		switch {
		case i == noStorage && t.Dynamic == "" && t.Data == nil:
			return fmt.Errorf("tensor %q has no storage", t.Name)
		case i == noStorage:
			continue
		case i < 0 || int(i) >= len(r.storages):
			return fmt.Errorf("tensor %q has storage %d, but there are only %d", t.Name, i, len(r.storages))
		}
	}
	if r.solved == nil {
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
	for _, b := range r.bodies {
		if err := b.r.check(); err != nil {
			return fmt.Errorf("%s: attribute %q: %w", g.Label(b.node), b.attr, err)
		}
	}
	return nil
}
