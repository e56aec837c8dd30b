package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// bodies plans the bodies of the main graph's nodes.
func bodies(ctx context.Context, s *State) error { return s.bodies(ctx, s.main) }

// bodies plans what stands within the nodes of a region: the bodies of control
// flow, whose nodes are put into their best order, and the local functions that
// are called, whose order is the file's. What the largest of them takes is the
// workspace of the node.
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

// planRegion does for a body what the passes do for the main graph.
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
