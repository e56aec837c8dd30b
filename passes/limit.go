package passes

import (
	"cmp"
	"context"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/repeat"
	"github.com/onnxmem/onnxmem/plan"
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
	asked := s.opt.Slices == SlicesOff && (s.opt.Limit != nil || s.opt.ExtraPercent > 0 || s.opt.Frontier)
	if s.choice.limit == nil && !asked {
		return nil
	}
	s.noteUnknownCosts()
	found, err := findLimit(ctx, s.task, s.trial(), s.choice, asked)
	if err != nil {
		return err
	}
	s.take(found.Trial)
	s.choice, s.budget = found.choice, found.budget
	if asked {
		s.frontier = found.frontier
	}
	if found.unshared {
		s.unshared = s.main
	}
	if repeat.Swaps(s.main) {
		return s.model.AddSwaps()
	}
	return nil
}

// limitChoice is what a search for a plan below a limit has chosen.
type limitChoice struct {
	*planner.Trial
	choice
	budget   *limitSearch // that found how the limit is kept; nil: there is none
	frontier []plan.FrontierPoint
	unshared bool // aliases are known to make no plan of the main graph better
}

// findLimit plans a trial, whose main graph is in its best order, below the limit of c or, if it is
// asked to choose, below that of the options.
func findLimit(ctx context.Context, s task, of *planner.Trial, c choice, asked bool) (*limitChoice, error) {
	x := s.search()
	search, end := x.Context(ctx)
	defer end()
	b, err := s.newLimitSearch(of.Main, s.opt.Host, 0)
	if err != nil {
		return nil, err
	}
	k := &limitChoice{Trial: of, choice: c}
	if k.unshared, err = s.shareFirst(ctx, b, c.limit); err != nil {
		return nil, err
	}
	if asked {
		s.chooseLimit(search, b, k)
	}
	if k.limit == nil {
		if b.shared != nil {
			k.giveAliases(b)
		}
		return k, nil
	}
	k.budget, b.limit = b, k.limit
	if asked && s.opt.Limit == nil && s.opt.ExtraPercent > 0 {
		if found, err := s.shareAgain(ctx, search, k); err != nil || found {
			return k, err
		}
	}
	if b.meets(b.limit) && !b.fits(b.limit) {
		b.found = b.asItIs(b.limit.Bytes)
		k.giveAliases(b)
		return k, nil
	}
	return k, s.keepExtra(ctx, search, x, k)
}

// keepExtra keeps the limit that was chosen within the extra time, if some was asked for without a
// limit. A plan may take more time than the search for it knew: views run again with what they view,
// and tensors that swap may wait longer. The next plan is then the one of the smallest peak whose
// planned time is less. As the plans do not depend on the extra time, more of it never gives a larger
// peak.
func (s *task) keepExtra(ctx, within context.Context, x *planner.Search, k *limitChoice) error {
	b, of := k.budget, k.Trial
	for {
		k.Trial = of
		if err := s.keepLimit(ctx, within, x, k); err != nil || s.opt.Limit != nil || s.opt.ExtraPercent == 0 {
			return err
		}
		planned := b.found.ExtraPercent
		if planned <= 0 || s.fitsExtra(b.takes(k.Main)) {
			return nil
		}
		limit := b.within(within, func(percent float64) bool { return percent < planned && s.fitsExtra(percent) })
		if limit <= k.limit.Bytes || limit >= b.Before.Loads.Peak || b.meets(&Limit{Bytes: limit}) {
			k.keepHeld(of, b.Before.Loads.Peak) // the graph as it is
			return nil
		}
		k.limit = &Limit{Bytes: limit}
		b.limit = k.limit
	}
}

// fitsExtra reports whether that percentage more time than the main graph takes, beside what its
// slices cost, is within the extra time.
func (s *task) fitsExtra(percent float64) bool {
	if s.known != nil {
		percent = plan.Together(100*s.known.shareOf(), percent)
	}
	return percent <= s.opt.ExtraPercent
}

// takes returns the extra time, in per cent, of the main graph in which nodes run again.
func (b *limitSearch) takes(r *planner.Region) float64 {
	steps := make([]plan.Step, len(r.G.Nodes))
	b.Place(r)
	b.Annotate(steps)
	return b.limited(r, steps).ExtraCostPercent
}

// shareFirst plans the main graph as it is with aliases, if these are permitted, and a peak below
// that of its best order is wanted: they take no time, unlike what the search does. It reports whether
// aliases make no plan of the graph as it is better. limit may be nil.
func (s *task) shareFirst(ctx context.Context, b *limitSearch, limit *Limit) (unshared bool, err error) {
	r := b.Before
	if limit = cmp.Or(limit, s.opt.Limit); limit != nil {
		limit = limit.of(r.Loads.Peak)
	}
	less := limit == nil || limit.Arena || limit.Bytes < r.Loads.Peak || s.opt.Frontier
	if !s.opt.mayAlias() || s.ranged != nil || !less || !r.MovesBytes() {
		return false, nil
	}
	if b.shared, err = r.AliasesFirst(ctx, s.search().Silent()); err != nil {
		return false, err
	}
	if b.shared != nil || s.opt.Aliases == AliasesOn {
		b.relaxed, err = s.relaxedSearch(b)
	}
	return b.shared == nil, err
}

// giveAliases chooses the plan with aliases of the graph as it is, which was found first.
func (k *limitChoice) giveAliases(b *limitSearch) {
	b.Before.Give(b.shared)
	b.InFile()
	t := *k.Trial
	t.Main = b.shared
	k.Trial = &t
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
	return l.Bytes >= b.Before.Loads.Peak && (!l.Arena || b.Before.Arena > 0 && l.Bytes >= b.Before.Arena)
}

// chooseLimit chooses the limit of the main graph, which is in its best order, and computes
// the frontier.
func (s *task) chooseLimit(search context.Context, b *limitSearch, k *limitChoice) {
	limit := b.Before.Loads.Peak
	if s.opt.Limit != nil {
		best := limit
		if t := b.Before.Traversal; t != nil {
			best = t.BestPeakBytes
		}
		k.limit = s.opt.Limit.of(best)
		limit = k.limit.Bytes
	} else if s.opt.ExtraPercent > 0 {
		limit = b.within(search, func(percent float64) bool { return percent <= s.opt.ExtraPercent })
		if b.meets(&Limit{Bytes: limit}) {
			limit = b.shared.Loads.Peak
		}
		k.limit = &Limit{Bytes: limit}
	}
	// Above the least effort, the solver builds an archive of plans, so the
	// frontier costs nothing.
	if s.opt.Frontier || b.changes() && s.opt.Effort != schedule.EffortFast && limit < b.Before.Loads.Peak {
		k.frontier = b.frontier(search)
	}
}

// changes reports whether the search may change the graph.
func (b *limitSearch) changes() bool { return b.solver != nil || b.swapper != nil }

// limitTries is the number of attempts with a lowered target, made when the arena
// or a recomputed view takes more than planned. The last one is the lowest plan that is known.
const limitTries = 6

// keepLimit looks for a graph that keeps the limit: it runs nodes again, or swaps.
func (s *task) keepLimit(ctx, within context.Context, x *planner.Search, k *limitChoice) error {
	b, of, limit := k.budget, k.Trial, k.limit.Bytes
	target, above := cmp.Or(k.target, limit), int64(math.MaxInt64)
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
		held, err := k.carryOut(ctx, of, p, x)
		if err != nil || held <= limit {
			return err
		}
		if s.opt.Limit == nil && (s.ranged == nil || held < b.Before.Loads.Peak) {
			k.keepHeld(of, held)
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

// carryOut chooses the graph of a plan for a trial, and returns its peak or, if that keeps a limit on
// the arena, its arena.
func (k *limitChoice) carryOut(ctx context.Context, of *planner.Trial, p *budget.SwapPlan, x *planner.Search) (held int64, err error) {
	b, limit := k.budget, k.limit
	k.Trial = of
	if b.found = p; len(p.Steps) > len(b.Costs) {
		tensors := b.swapped()
		// Another order would not fit the transfers. A strategy would order the nodes that
		// run again otherwise, and not keep the limit.
		x.Fixed, x.FixedBodies = len(tensors) > 0 || x.Strategy != "", true
		if k.Trial, err = b.Turned(ctx, of, p.Steps, tensors, x, &box.Ceiling{Bytes: limit.Bytes, Arena: limit.Arena}); err != nil {
			return 0, err
		}
	}
	if held = k.Main.Loads.Peak; held <= limit.Bytes && limit.Arena {
		return k.PlaceWithin(ctx, limit.Bytes, x)
	}
	return held, nil
}

// keepHeld keeps the plan within some extra time that was carried out, and whose peak is larger
// than planned. The trial as it was is chosen if that is no better.
func (k *limitChoice) keepHeld(of *planner.Trial, held int64) {
	b := k.budget
	peak := b.Before.Loads.Peak
	if b.shared != nil {
		peak = min(peak, b.shared.Loads.Peak)
	}
	b.limit = &Limit{Bytes: min(held, peak)}
	if held < peak {
		return
	}
	b.Repetition = *repeat.New(b.Before, b.Costs)
	k.Trial, b.found = of, b.asItIs(peak)
	if b.shared != nil {
		k.giveAliases(b)
	}
}
