package passes

import (
	"context"
	"fmt"
)

// Aliases says whether results of Concat, Split, Slice and Gather along an axis with only
// lengths of 1 before it may lie in the bytes of their operands, and operands in those of
// their result ([plan.Span]). They do so where that makes the plan better. A runtime that
// takes the offsets of such a plan must not run these nodes, or its copies must bear their
// target as their source. With Options.Ranges, they share the same bytes at every point.
// Bodies and local functions have no aliases.
type Aliases int

// The values of Aliases.
const (
	// AliasesAuto permits them unless views are to have buffers of their own (NoViews), the graph
	// may be changed for a smaller peak, after which they are seldom worth another search (Limit,
	// ExtraPercent), or another option excludes them ([Exclusions]).
	AliasesAuto Aliases = iota
	// AliasesOff permits none.
	AliasesOff
	// AliasesOn permits them and refuses the options that exclude them.
	AliasesOn
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
	again := o.Limit != nil || o.ExtraPercent > 0
	return !o.NoViews && !again && !o.excludes("aliases")
}

// aliases lets results of Concat, Split, Slice and Gather lie in the bytes of their operands,
// and operands in the bytes of their results, if that makes the plan of the main graph
// better. Better is a smaller peak, or the same peak and a smaller arena. With both the same,
// it is fewer bytes to copy, and an order that is proven optimal if it was before.
//
// The bound is that of all orders and all choices of such nodes: it is proven on the
// relaxed layout, in which memory may have two places at once.
func aliases(ctx context.Context, s *State) error {
	r := s.main
	if !s.opt.mayAlias() {
		return nil
	}
	if s.ranged != nil {
		return s.aliasRanges(ctx)
	}
	if s.budget != nil && s.budget.found != nil && len(s.budget.swapped()) > 0 {
		return nil // another order would not fit the transfers
	}
	g := r.aliasGraph()
	if len(g.Nodes) == 0 || g.Choose(nil).Saved == 0 {
		return nil // the plan stays as it is
	}
	plain := *r
	planned := r.plannedOrder()
	if err := r.reorder(identity(len(planned))); err != nil {
		return err
	}
	x := s.search().silent()
	c, err := r.chooseAliases(ctx, r.aliasGraph(), plain.loads.Peak, plain.arena, x)
	if err != nil {
		return err
	}
	if c != nil {
		better, err := c.place(ctx, &plain, x)
		if better {
			s.main = c.region
			s.frontier = nil // what it says of limits is proven without aliases
		}
		if err != nil || better {
			return err
		}
		if err := c.region.reorder(identity(len(planned))); err != nil {
			return err
		}
	}
	if err := r.reorder(planned); err != nil {
		return err
	}
	r.loads, r.buffers = plain.loads, plain.buffers
	return nil
}
