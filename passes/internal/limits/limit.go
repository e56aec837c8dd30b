package limits

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

// Keep plans a main graph, which is in its best order, below the limit of c or, if it is to choose,
// below the one that was asked for or the one that keeps to the extra time. known has searches that were
// made, and need not be made again; nil: there are none.
func Keep(ctx context.Context, s Task, known *Base, c Choice, asked bool) (*Kept, error) {
	x, of := s.search(), &s.Trial
	search, end := x.Context(ctx)
	defer end()
	s.asItIs = s.stays()
	casts, err := s.recast(ctx, of.Main)
	if err != nil {
		return nil, err
	}
	b, err := s.newSearch(of.Main, casts, s.Permits.host(), 0, known.searches())
	if err != nil {
		return nil, err
	}
	k := &Kept{Trial: of, Choice: c, known: known}
	if k.Unshared, err = s.shareFirst(ctx, b, c.Limit); err != nil {
		return nil, err
	}
	if asked {
		s.chooseLimit(search, b, k)
	}
	if k.Limit == nil {
		if b.shared != nil && casts == nil { // else the pass recast follows
			k.giveAliases(b)
		}
		return k, nil
	}
	k.Search, b.limit = b, k.Limit
	if asked && s.Asked.Limit == nil && s.Asked.Extra > 0 {
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
func (s *Task) keepExtra(ctx, within context.Context, x *planner.Search, k *Kept) error {
	b, of := k.Search, k.Trial
	for {
		k.Trial = of
		if err := s.keepLimit(ctx, within, x, k); err != nil || s.Asked.Limit != nil || s.Asked.Extra == 0 {
			return err
		}
		planned := b.found.ExtraPercent
		if planned <= 0 || s.fitsExtra(k.known, b.takes(k.Main)) {
			return nil
		}
		limit := b.within(within, func(percent float64) bool { return percent < planned && s.fitsExtra(k.known, percent) })
		if limit <= k.Limit.Bytes || limit >= b.Before.Loads.Peak || b.meets(&Limit{Bytes: limit}) {
			k.keepHeld(of, b.Before.Loads.Peak) // the graph as it is
			return nil
		}
		k.Limit = &Limit{Bytes: limit}
		b.limit = k.Limit
	}
}

// fitsExtra reports whether that percentage more time than the main graph takes, beside what its
// slices cost, is within the extra time.
func (s *Task) fitsExtra(known *Base, percent float64) bool {
	if known != nil {
		percent = plan.Together(100*known.shareOf(), percent)
	}
	return percent <= s.Asked.Extra
}

// shareFirst plans the main graph as it is with aliases, if these are permitted, and a peak below
// that of its best order is wanted: they take no time, unlike what the search does. It reports whether
// aliases make no plan of the graph as it is better. limit may be nil.
func (s *Task) shareFirst(ctx context.Context, b *Search, limit *Limit) (unshared bool, err error) {
	r := b.Before
	if limit = cmp.Or(limit, s.Asked.Limit); limit != nil {
		limit = limit.Of(b.unlimited())
	}
	less := limit == nil || limit.Arena || limit.Bytes < r.Loads.Peak || s.Asked.Frontier
	if !s.Permits.Aliases || s.Ranged != nil || !less || !r.MovesBytes() {
		return false, nil
	}
	if b.shared, err = r.AliasesFirst(ctx, s.search().Silent()); err != nil {
		return false, err
	}
	if b.shared != nil || s.Permits.AliasesAgain {
		b.relaxed, err = s.relaxedSearch(b)
	}
	return b.shared == nil, err
}

// chooseLimit chooses the limit of the main graph, which is in its best order, and computes
// the frontier.
func (s *Task) chooseLimit(search context.Context, b *Search, k *Kept) {
	limit := b.Before.Loads.Peak
	if s.Asked.Limit != nil {
		best := b.unlimited()
		if t := b.Before.Traversal; t != nil {
			best = t.BestPeakBytes
		}
		k.Limit = s.Asked.Limit.Of(best)
		limit = k.Limit.Bytes
	} else if s.Asked.Extra > 0 {
		limit = b.within(search, func(percent float64) bool { return percent <= s.Asked.Extra })
		if b.meets(&Limit{Bytes: limit}) {
			limit = b.shared.Loads.Peak
		}
		k.Limit = &Limit{Bytes: limit}
	}
	// Above the least effort, the solver builds an archive of plans as a rule, so the
	// frontier costs nothing.
	if s.Asked.Frontier || b.changes() && !b.single() && s.How.Effort != schedule.EffortFast && limit < b.Before.Loads.Peak {
		k.Frontier = b.frontier(search)
	}
}

// single reports whether the search plans a limit by itself, without an archive for others.
func (b *Search) single() bool { return b.solver != nil && b.solver.Single() }

// keepLimit looks for a graph that keeps the limit: it runs nodes again, or swaps.
func (s *Task) keepLimit(ctx, within context.Context, x *planner.Search, k *Kept) error {
	b, of, limit := k.Search, k.Trial, k.Limit.Bytes
	target, above := cmp.Or(k.Target, limit), int64(math.MaxInt64)
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
		if s.Asked.Limit == nil && (s.Ranged == nil || held < b.Before.Loads.Peak) {
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
func (k *Kept) carryOut(ctx context.Context, of *planner.Trial, p *budget.SwapPlan, x *planner.Search) (held int64, err error) {
	b, limit := k.Search, k.Limit
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
func (k *Kept) keepHeld(of *planner.Trial, held int64) {
	b := k.Search
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
