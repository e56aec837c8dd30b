package passes

import (
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// checkAliases refuses an unknown value.
func (o *Options) checkAliases() error {
	if o.Aliases < AliasesAuto || o.Aliases > AliasesOn {
		return fmt.Errorf("aliases: expected one of the values of Aliases, found %d", o.Aliases)
	}
	return nil
}

// mayAlias reports whether the plan may have aliases.
func (o *Options) mayAlias() bool {
	if o.Aliases != AliasesAuto {
		return o.Aliases == AliasesOn
	}
	return !o.NoViews && !o.excludes("aliases")
}

// aliasesAfter reports whether aliases are looked for in the graph that is planned in the end,
// even if it may have been changed for a smaller peak.
func (o *Options) aliasesAfter() bool {
	again := o.Limit != nil || o.ExtraPercent > 0
	return o.mayAlias() && (o.Aliases == AliasesOn || !again)
}

// aliases lets results of Concat, Split, Slice and Gather lie in the bytes of their operands,
// and operands in the bytes of their results, if that makes the plan of the main graph
// better.
func aliases(ctx context.Context, s *State) error {
	r := s.main
	if !s.opt.aliasesAfter() || r.Apart != nil || r == s.unshared {
		return nil
	}
	if s.ranged != nil {
		return s.aliasRanges(ctx)
	}
	if s.budget != nil && s.budget.found != nil && len(s.budget.swapped()) > 0 {
		return nil // another order would not fit the transfers
	}
	q, err := sharing(ctx, r, s.search().Silent())
	if q != nil {
		s.takeAliases(q)
	}
	return err
}

// takeAliases makes a plan with aliases, which [region.sharing] found, that of the main graph.
func (s *State) takeAliases(q *planner.Region) {
	if b := s.budget; b != nil && b.before == s.main {
		b.inFile()
	}
	s.main = q
}

// sharing returns the plan of an ordered and placed main graph with aliases; nil if that is not
// better. The nodes are in the order of the plan that is kept; if it has aliases, r refers to them
// by their indices in the file.
//
// Better is a smaller peak, or the same peak and a smaller arena. With both the same,
// it is fewer bytes to copy, and an order that is proven optimal if it was before.
//
// The bound is that of all orders and all choices of such nodes: it is proven on the
// relaxed layout, in which memory may have two places at once.
func sharing(ctx context.Context, r *planner.Region, x *planner.Search) (*planner.Region, error) {
	if !movesBytes(r) {
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

// sharedFirst returns the plan with aliases of a main graph that is in its best order, as the
// passes behind would make it of the graph as it is; nil if that is not better. r stays as it was, but
// that its arena is known; [region.give] puts the nodes into the order of the result.
func sharedFirst(ctx context.Context, r *planner.Region, x *planner.Search) (*planner.Region, error) {
	kept, planned := *r, r.PlannedOrder()
	if err := r.Place(ctx, x); err != nil {
		return nil, err
	}
	kept.Arena = r.Arena
	q, err := sharing(ctx, r, x)
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

// wouldTake returns the arena of a main graph that is in its order, which stays as it was, but that
// this is known.
func wouldTake(ctx context.Context, r *planner.Region, x *planner.Search) (int64, error) {
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

// give puts the nodes of a main graph into the order of q, which [region.sharedFirst] has returned.
func give(r *planner.Region, q *planner.Region) {
	r.InFileOrder()
	ids := make([]graph.NodeID, len(q.StepOf))
	for n, step := range q.StepOf {
		ids[step] = graph.NodeID(n)
	}
	r.G.Reorder(ids)
}

// movesBytes reports whether nodes of a main graph only move bytes that could be shared.
func movesBytes(r *planner.Region) bool {
	g := r.AliasGraph()
	return len(g.Nodes) > 0 && g.Choose(nil).Saved > 0
}
