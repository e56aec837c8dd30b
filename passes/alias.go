package passes

import (
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
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
	if !s.opt.aliasesAfter() || r.apart != nil || r == s.unshared {
		return nil
	}
	if s.ranged != nil {
		return s.aliasRanges(ctx)
	}
	if s.budget != nil && s.budget.found != nil && len(s.budget.swapped()) > 0 {
		return nil // another order would not fit the transfers
	}
	q, err := r.sharing(ctx, s.search().silent())
	if q != nil {
		s.takeAliases(q)
	}
	return err
}

// takeAliases makes a plan with aliases, which [region.sharing] found, that of the main graph.
func (s *State) takeAliases(q *region) {
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
func (r *region) sharing(ctx context.Context, x *search) (*region, error) {
	if !r.movesBytes() {
		return nil, nil // the plan stays as it is
	}
	plain := *r
	planned := r.plannedOrder()
	r.inFileOrder()
	c, err := r.chooseAliases(ctx, r.aliasGraph(), plain.loads.Peak, plain.arena, x)
	if err != nil {
		return nil, err
	}
	if c != nil {
		better, err := c.place(ctx, &plain, x)
		if err != nil {
			return nil, err
		}
		if better {
			return c.region, nil
		}
		c.region.inFileOrder()
	}
	r.renumber(planned)
	*r = plain
	return nil, nil
}

// sharedFirst returns the plan with aliases of a main graph that is in its best order, as the
// passes behind would make it of the graph as it is; nil if that is not better. r stays as it was, but
// that its arena is known; [region.give] puts the nodes into the order of the result.
func (r *region) sharedFirst(ctx context.Context, x *search) (*region, error) {
	kept, planned := *r, r.plannedOrder()
	if err := r.place(ctx, x); err != nil {
		return nil, err
	}
	kept.arena = r.arena
	q, err := r.sharing(ctx, x)
	if err != nil {
		return nil, err
	}
	if q != nil {
		r.g.Reorder(q.stepOf)
		r.renumber(planned)
	}
	*r = kept
	return q, nil
}

// wouldTake returns the arena of a main graph that is in its order, which stays as it was, but that
// this is known.
func (r *region) wouldTake(ctx context.Context, x *search) (int64, error) {
	if r.arena == 0 {
		kept := *r
		err := r.place(ctx, x)
		kept.arena = r.arena
		if *r = kept; err != nil {
			return 0, err
		}
	}
	return r.arena, nil
}

// give puts the nodes of a main graph into the order of q, which [region.sharedFirst] has returned.
func (r *region) give(q *region) {
	r.inFileOrder()
	ids := make([]graph.NodeID, len(q.stepOf))
	for n, step := range q.stepOf {
		ids[step] = graph.NodeID(n)
	}
	r.g.Reorder(ids)
}

// movesBytes reports whether nodes of a main graph only move bytes that could be shared.
func (r *region) movesBytes() bool {
	g := r.aliasGraph()
	return len(g.Nodes) > 0 && g.Choose(nil).Saved > 0
}
