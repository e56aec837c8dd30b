package limits

import (
	"context"
	"fmt"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Base is a graph in its best order, in which nodes may run again and tensors may be
// swapped.
type Base struct {
	s             *Task
	planner.Trial                   // its main graph is in its best order, and nil until it is needed
	fixed         bool              // which is that in which the slices were written
	sliced        *slicedModel      // nil: the graph without slices
	problem       *schedule.Problem // of the main graph in the order of the file
	search        *Search           // nil until it is needed
	part          int64             // the search does one part of that many; 0: all
	casts         *recasting        // the plan without a limit in which casts run again; nil: it is the best order
}

// Orders returns what was found for the order of the main graph; nil if there is no base.
func (b *Base) Orders() *planner.KnownOrders {
	if b == nil {
		return nil
	}
	return &planner.KnownOrders{Problem: b.problem, Solved: b.Main.Solved}
}

// searches returns the search for plans in the base, if there is one.
func (b *Base) searches() *Search {
	if b == nil {
		return nil
	}
	return b.search
}

// unlimited is the peak of the plan of a base without a limit.
func (b *Base) unlimited() int64 {
	if b.casts != nil {
		return b.casts.peak
	}
	return b.Main.Loads.Peak
}

// bound is that of all orders, or of all plans in which casts run again.
func (b *Base) bound() int64 {
	if b.casts != nil {
		return b.casts.free.Bound
	}
	return b.Main.Solved.Bound
}

// shareOf is what the slices of a base cost.
func (b *Base) shareOf() float64 {
	if b.sliced == nil {
		return 0
	}
	return b.sliced.extra
}

// with adds the extra time of a plan in the base to that of its slices.
func (b *Base) with(percent float64) float64 {
	return plan.Together(100*b.shareOf(), percent) / 100
}

// searched returns the search for plans in the base below limits.
func (b *Base) searched() (*Search, error) {
	var err error
	if b.search == nil {
		b.search, err = b.s.newSearch(b.Main, b.casts, b.s.Permits.host(), b.part, nil)
	}
	return b.search, err
}

// below returns the cheapest plan of the base below a limit; nil if it is proven that
// none is cheaper than the way that is known.
func (b *Base) below(ctx context.Context, limit int64, known *way) (*budget.SwapPlan, error) {
	search, err := b.searched()
	if err != nil {
		return nil, err
	}
	if search.solver != nil {
		percent, obstacle := search.solver.Bound(ctx, limit)
		if obstacle != nil || known != nil && b.with(percent) >= known.extra {
			return nil, nil
		}
	}
	return search.cheapest(ctx, limit), nil
}

// within returns the way of the base with the smallest peak that takes at most that percentage
// more time; nil if it is above most, or proven to be.
func (b *Base) within(ctx context.Context, most int64, percent float64) (*way, error) {
	search, err := b.searched()
	if err != nil {
		return nil, err
	}
	fits := func(extra float64) bool { return b.with(extra) <= percent/100 }
	if search.solver != nil {
		if bound, obstacle := search.solver.Bound(ctx, most); obstacle != nil || !fits(bound) {
			return nil, nil
		}
	}
	limit := search.within(ctx, fits)
	if limit > most {
		return nil, nil
	}
	return &way{sliced: b.sliced, from: b, limit: limit, extra: b.with(search.cheapest(ctx, limit).ExtraPercent)}, nil
}

// order orders a base as the pass order would, once.
func (b *Base) order(ctx context.Context) error {
	if b.Main != nil {
		return nil
	}
	s := b.s
	m := *s.Model
	if b.sliced == nil {
		m.Graph = s.Model.Graph.Clone()
	} else {
		sliced, err := b.sliced.from.rewrite(b.sliced)
		if err != nil {
			return err
		}
		m = *sliced
	}
	x := s.search()
	log := planner.SearchLog{}
	x.Progress, x.Known, x.Log, x.Fixed = nil, nil, &log, b.fixed
	t, err := s.Bind.Trial(ctx, &m, s.Rules, x)
	if err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	b.problem = t.Main.Problem()
	if err := t.Main.Order(ctx, x); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	if b.casts, err = s.recast(ctx, t.Main); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	s.How.Log.TimedOut = s.How.Log.TimedOut || log.TimedOut
	b.Trial = *t
	return nil
}

// way is a way to meet a limit.
type way struct {
	sliced *slicedModel // nil: no slices
	from   *Base        // in which nodes run again or tensors are swapped; nil: the order meets the limit
	limit  int64
	extra  float64 // of everything, as a share of the time of the graph without slices
}

// basePart divides the work of the search for recomputation in a base with slices, of
// which there may be several.
const basePart = 2

// basePartNodes is the number of nodes per such part, where a large base is searched for what it
// needs in some extra time.
const basePartNodes = 1000
