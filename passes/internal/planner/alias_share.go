package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
)

// WithAliases returns the plan of an ordered and placed main graph with aliases; nil if that is not
// better. The nodes are in the order of the plan that is kept; if it has aliases, r refers to them
// by their indices in the file.
//
// Better is a smaller peak, or the same peak and a smaller arena. With both the same,
// it is fewer bytes to copy, and an order that is proven optimal if it was before.
//
// The bound is that of all orders and all choices of such nodes: it is proven on the
// relaxed layout, in which memory may have two places at once.
func (r *Region) WithAliases(ctx context.Context, x *Search) (*Region, error) {
	if !r.MovesBytes() {
		return nil, nil // the plan stays as it is
	}
	plain := *r
	planned := r.PlannedOrder()
	r.InFileOrder()
	c, err := r.ChooseAliases(ctx, r.AliasGraph(), plain.Loads.Peak, plain.Arena, x)
	if err != nil {
		return nil, err
	}
	if c != nil {
		better, err := c.Place(ctx, &plain, x)
		if err != nil {
			return nil, err
		}
		if better {
			return c.Region, nil
		}
		c.Region.InFileOrder()
	}
	r.Renumber(planned)
	*r = plain
	return nil, nil
}

// AliasesFirst returns the plan with aliases of a main graph that is in its best order, as the
// passes behind would make it of the graph as it is; nil if that is not better. r stays as it was, but
// that its arena is known; [Region.Give] puts the nodes into the order of the result.
func (r *Region) AliasesFirst(ctx context.Context, x *Search) (*Region, error) {
	kept, planned := *r, r.PlannedOrder()
	if err := r.Place(ctx, x); err != nil {
		return nil, err
	}
	kept.Arena = r.Arena
	q, err := r.WithAliases(ctx, x)
	if err != nil {
		return nil, err
	}
	if q != nil {
		r.G.Reorder(q.StepOf)
		r.Renumber(planned)
	}
	*r = kept
	return q, nil
}

// WouldTake returns the arena of a main graph that is in its order, which stays as it was, but that
// this is known.
func (r *Region) WouldTake(ctx context.Context, x *Search) (int64, error) {
	if r.Arena == 0 {
		kept := *r
		err := r.Place(ctx, x)
		kept.Arena = r.Arena
		if *r = kept; err != nil {
			return 0, err
		}
	}
	return r.Arena, nil
}

// Give puts the nodes of a main graph into the order of q, which [Region.AliasesFirst] has returned.
func (r *Region) Give(q *Region) {
	r.InFileOrder()
	ids := make([]graph.NodeID, len(q.StepOf))
	for n, step := range q.StepOf {
		ids[step] = graph.NodeID(n)
	}
	r.G.Reorder(ids)
}

// MovesBytes reports whether nodes of a main graph only move bytes that could be shared.
func (r *Region) MovesBytes() bool {
	g := r.AliasGraph()
	return len(g.Nodes) > 0 && g.Choose(nil).Saved > 0
}
