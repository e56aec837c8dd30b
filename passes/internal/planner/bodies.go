package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// PlanBodies plans the graphs inside the nodes of a region: the bodies of control
// flow, whose nodes it puts into their best order, and the local functions that
// the nodes call, which keep the order of the file. The arena of the largest of
// them is the workspace of the node.
func (r *Region) PlanBodies(ctx context.Context, x *Search) error {
	for id, n := range r.G.Nodes {
		id := graph.NodeID(id)
		for _, a := range n.Bodies() {
			for k, g := range a.All() {
				inner := newRegion(r.Rules, g, controlBody, r.Calls)
				inner.inFunction, inner.Boxes = r.inFunction, r.Boxes
				if err := inner.plan(ctx, x); err != nil {
					return err
				}
				r.Bodies = append(r.Bodies, Body{id, a.Name, k, inner})
				r.Workspace[id] = max(r.Workspace[id], inner.Arena)
			}
		}
		if call := n.Semantics.Call; call != nil {
			inner := r.Calls[call]
			if inner == nil {
				inner = newRegion(r.Rules, call.Body, functionBody, r.Calls)
				if err := inner.plan(ctx, x); err != nil {
					return err
				}
				r.Calls[call] = inner
			}
			r.Workspace[id] = max(r.Workspace[id], inner.Arena)
		}
	}
	return nil
}

// plan plans a region by itself.
func (r *Region) plan(ctx context.Context, x *Search) error {
	if err := r.share(); err != nil {
		return err
	}
	if err := r.PlanBodies(ctx, x); err != nil {
		return err
	}
	if err := r.Order(ctx, x); err != nil {
		return err
	}
	return r.Place(ctx, x)
}
