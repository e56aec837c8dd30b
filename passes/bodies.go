package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// bodies plans the bodies of the main graph's nodes, and adds recorded workspaces.
func bodies(ctx context.Context, s *State) error {
	if s.ranged != nil {
		return nil // the pass range plans them
	}
	if err := s.bodies(ctx, s.main); err != nil {
		return err
	}
	return s.recorded()
}

// bodies plans the graphs inside the nodes of a region: the bodies of control
// flow, whose nodes it puts into their best order, and the local functions that
// the nodes call, which keep the order of the file. The arena of the largest of
// them is the workspace of the node.
func (s *State) bodies(ctx context.Context, r *region) error {
	for id, n := range r.g.Nodes {
		id := graph.NodeID(id)
		for _, a := range n.Bodies() {
			for k, g := range a.All() {
				inner := s.newRegion(g, controlBody)
				inner.inFunction = r.inFunction
				if err := s.planRegion(ctx, inner); err != nil {
					return err
				}
				r.bodies = append(r.bodies, body{id, a.Name, k, inner})
				r.workspace[id] = max(r.workspace[id], inner.arena)
			}
		}
		if call := n.Semantics.Call; call != nil {
			inner := s.calls[call]
			if inner == nil {
				inner = s.newRegion(call.Body, functionBody)
				if err := s.planRegion(ctx, inner); err != nil {
					return err
				}
				s.calls[call] = inner
			}
			r.workspace[id] = max(r.workspace[id], inner.arena)
		}
	}
	return nil
}

// planRegion runs on a body the steps that the passes run on the main graph.
func (s *State) planRegion(ctx context.Context, r *region) error {
	if err := s.share(r); err != nil {
		return err
	}
	if err := s.bodies(ctx, r); err != nil {
		return err
	}
	if err := s.order(ctx, r); err != nil {
		return err
	}
	return s.place(ctx, r)
}
