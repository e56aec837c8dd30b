package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// planBodies plans the graphs inside the nodes of a region: the bodies of control
// flow, whose nodes it puts into their best order, and the local functions that
// the nodes call, which keep the order of the file. The arena of the largest of
// them is the workspace of the node.
func (r *region) planBodies(ctx context.Context, x *search) error {
	for id, n := range r.g.Nodes {
		id := graph.NodeID(id)
		for _, a := range n.Bodies() {
			for k, g := range a.All() {
				inner := newRegion(r.rules, g, controlBody, r.calls)
				inner.inFunction, inner.boxes = r.inFunction, r.boxes
				if err := inner.plan(ctx, x); err != nil {
					return err
				}
				r.bodies = append(r.bodies, body{id, a.Name, k, inner})
				r.workspace[id] = max(r.workspace[id], inner.arena)
			}
		}
		if call := n.Semantics.Call; call != nil {
			inner := r.calls[call]
			if inner == nil {
				inner = newRegion(r.rules, call.Body, functionBody, r.calls)
				if err := inner.plan(ctx, x); err != nil {
					return err
				}
				r.calls[call] = inner
			}
			r.workspace[id] = max(r.workspace[id], inner.arena)
		}
	}
	return nil
}

// plan plans a region by itself.
func (r *region) plan(ctx context.Context, x *search) error {
	if err := r.share(); err != nil {
		return err
	}
	if err := r.planBodies(ctx, x); err != nil {
		return err
	}
	if err := r.order(ctx, x); err != nil {
		return err
	}
	return r.place(ctx, x)
}
