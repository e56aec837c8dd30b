package passes

import (
	"cmp"
	"context"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// of returns the limit with its bytes, given the best order's peak.
func (l *Limit) of(peak int64) *Limit {
	if l.Percent > 0 {
		return &Limit{Bytes: int64(math.Floor(l.Percent / 100 * float64(peak))), Arena: l.Arena}
	}
	return l
}

// choice is what the search for less memory has decided, for the passes behind it.
type choice struct {
	limit  *Limit // in bytes: the plan keeps it; nil: none
	target int64  // the peak to plan for first, where the arena of plans above it exceeds the limit; 0: the limit
}

// limit recomputes or swaps tensors if the best order exceeds the limit. Without slices, whose
// pass weighs all means, it chooses the limit that keeps to the extra time, and computes the
// frontier, if that is asked for.
func limit(ctx context.Context, s *State) error {
	x := s.search()
	search, end := x.Context(ctx)
	defer end()
	asked := s.opt.Slices == SlicesOff && (s.opt.Limit != nil || s.opt.ExtraPercent > 0 || s.opt.Frontier)
	if s.choice.limit == nil && !asked {
		return nil
	}
	b, err := s.newLimitSearch(s.main, s.opt.Host, 0)
	if err != nil {
		return err
	}
	s.noteUnknownCosts()
	if err := s.shareFirst(ctx, b); err != nil {
		return err
	}
	if asked {
		s.chooseLimit(search, b)
	}
	if s.choice.limit == nil {
		if b.shared != nil {
			s.giveAliases(b)
		}
		return nil
	}
	if asked && s.opt.Limit == nil && s.opt.ExtraPercent > 0 {
		again, err := s.shareAgain(ctx, search, b)
		if err != nil {
			return err
		}
		if again != nil {
			s.takeAgain(b, again)
			return nil
		}
	}
	s.budget, b.limit = b, s.choice.limit
	if b.meets(b.limit) && !b.fits(b.limit) {
		b.found = b.asItIs(b.limit.Bytes)
		s.giveAliases(b)
		return nil
	}
	return s.keepLimit(ctx, search, x)
}

// shareFirst plans the main graph as it is with aliases, if these are permitted, and a peak below
// that of its best order is wanted: they take no time, unlike what the search does.
func (s *State) shareFirst(ctx context.Context, b *limitSearch) (err error) {
	r := b.before
	limit := cmp.Or(s.choice.limit, s.opt.Limit)
	if limit != nil {
		limit = limit.of(r.Loads.Peak)
	}
	less := limit == nil || limit.Arena || limit.Bytes < r.Loads.Peak || s.opt.Frontier
	if !s.opt.mayAlias() || s.ranged != nil || !less || !r.MovesBytes() {
		return nil
	}
	if b.shared, err = r.AliasesFirst(ctx, s.search().Silent()); err != nil {
		return err
	}
	if b.shared == nil {
		s.unshared = r
	}
	if b.shared != nil || s.opt.Aliases == AliasesOn {
		b.relaxed, err = s.relaxedSearch(b)
	}
	return err
}

// giveAliases makes the plan with aliases that was found first that of the main graph.
func (s *State) giveAliases(b *limitSearch) {
	s.main.Give(b.shared)
	t := s.trial()
	t.Main = b.shared
	s.takeAliases(t)
}

// meets reports whether the plan with aliases of the graph as it is meets a limit.
func (b *limitSearch) meets(l *Limit) bool {
	switch {
	case b.shared == nil:
		return false
	case l.Arena:
		return b.shared.Arena <= l.Bytes
	}
	return b.shared.Loads.Peak <= l.Bytes
}

// fits reports whether the graph as it is meets a limit without aliases, as far as is known.
func (b *limitSearch) fits(l *Limit) bool {
	return l.Bytes >= b.before.Loads.Peak && (!l.Arena || b.before.Arena > 0 && l.Bytes >= b.before.Arena)
}

// chooseLimit chooses the limit of the main graph, which is in its best order, and computes
// the frontier.
func (s *State) chooseLimit(search context.Context, b *limitSearch) {
	limit := b.before.Loads.Peak
	if s.opt.Limit != nil {
		best := limit
		if t := s.main.Traversal; t != nil {
			best = t.BestPeakBytes
		}
		s.choice.limit = s.opt.Limit.of(best)
		limit = s.choice.limit.Bytes
	} else if s.opt.ExtraPercent > 0 {
		limit = b.within(search, func(percent float64) bool { return percent <= s.opt.ExtraPercent })
		if b.meets(&Limit{Bytes: limit}) {
			limit = b.shared.Loads.Peak
		}
		s.choice.limit = &Limit{Bytes: limit}
	}
	// Above the least effort, the solver builds an archive of plans, so the
	// frontier costs nothing.
	if s.opt.Frontier || b.changes() && s.opt.Effort != schedule.EffortFast && limit < b.before.Loads.Peak {
		s.frontier = b.frontier(search)
	}
}

// changes reports whether the search may change the graph.
func (b *limitSearch) changes() bool { return b.solver != nil || b.swapper != nil }

// limitTries is the number of attempts with a lowered target, made when the arena
// or a recomputed view takes more than planned. The last one is the lowest plan that is known.
const limitTries = 6

// keepLimit makes the main graph one that keeps the limit: it runs nodes again, or swaps.
func (s *State) keepLimit(ctx, within context.Context, x *planner.Search) error {
	b, limit := s.budget, s.budget.limit.Bytes
	target, above := cmp.Or(s.choice.target, limit), int64(math.MaxInt64)
	for tries := 1; ; tries++ {
		p := b.cheapest(within, target)
		if tries > 1 && p.Feasible != budget.Found && p.Lowest > 0 && p.Lowest < above {
			p = b.cheapest(within, p.Lowest)
		}
		if p.Ended != nil {
			x.Log.TimedOut = true
		}
		if p.Feasible != budget.Found {
			if target < limit && p.Feasible == budget.Impossible {
				p.Feasible = budget.NoneFound // the limit itself may be possible
			}
			return b.error(within, p)
		}
		held, err := s.carryOut(ctx, p, x)
		if err != nil || held <= limit {
			return err
		}
		if s.opt.Limit == nil && (s.ranged == nil || held < b.before.Loads.Peak) {
			s.keepHeld(held)
			return nil
		}
		above = p.PeakBytes
		if tries == limitTries || above <= p.Lowest {
			return b.error(within, &budget.SwapPlan{Plan: budget.Plan{Lowest: b.cheapest(within, limit).Lowest}})
		}
		if target = min(above-1, int64(float64(limit)*float64(above)/float64(held))); tries == limitTries-1 {
			target = min(target, max(p.Lowest, 1))
		}
	}
}

// carryOut makes the main graph that of a plan, and returns its peak or, if that keeps a limit on
// the arena, its arena.
func (s *State) carryOut(ctx context.Context, p *budget.SwapPlan, x *planner.Search) (held int64, err error) {
	b, limit := s.budget, s.budget.limit
	if b.found = p; len(p.Steps) > len(b.costs) {
		tensors := b.swapped()
		// Another order would not fit the transfers. A strategy would order the nodes that
		// run again otherwise, and not keep the limit.
		x.Fixed, x.FixedBodies = len(tensors) > 0 || x.Strategy != "", true
		t, err := b.turned(ctx, s.trial(), p.Steps, tensors, x, &box.Ceiling{Bytes: limit.Bytes, Arena: limit.Arena})
		if err != nil {
			return 0, err
		}
		s.take(t)
		if len(tensors) > 0 {
			if err := s.model.AddSwaps(); err != nil {
				return 0, err
			}
		}
	}
	if held = s.main.Loads.Peak; held <= limit.Bytes && limit.Arena {
		return s.trial().PlaceWithin(ctx, limit.Bytes, x)
	}
	return held, nil
}

// keepHeld takes the plan within some extra time that was carried out, and whose peak is larger
// than planned. The graph as it is is taken if that is no better.
func (s *State) keepHeld(held int64) {
	b := s.budget
	peak := b.before.Loads.Peak
	if b.shared != nil {
		peak = min(peak, b.shared.Loads.Peak)
	}
	b.limit = &Limit{Bytes: min(held, peak)}
	if held < peak {
		return
	}
	b.repetition = *newRepetition(b.before, b.costs)
	s.main, s.model.Graph, b.found = b.before, b.before.G, b.asItIs(peak)
	if b.shared != nil {
		s.giveAliases(b)
	}
}
