package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// aliasStep is the step between the limits below which the main graph is planned with aliases, in
// per cent of the best order's peak.
const aliasStep = 10

// aliasedAgain is a plan with aliases of a main graph in which nodes run again.
type aliasedAgain struct {
	plan       *budget.SwapPlan
	repetition *repetition
	main       *planner.Region
}

// shareAgain returns the plan with aliases of the smallest peak, of those in which nodes run again
// within the extra time; nil if none is below the peak of the graph as it is, or of the plan that is
// known. The graphs are those of limits that do not depend on that time, so that more of it never
// gives a larger peak: aliases save more in some graphs than in others that need less without them.
// Graphs that swap have no aliases.
func (s *State) shareAgain(ctx, within context.Context, b *limitSearch) (best *aliasedAgain, err error) {
	if s.opt.Aliases != AliasesOn || s.ranged != nil || !b.before.MovesBytes() {
		return nil, nil
	}
	search := b
	if b.solver == nil {
		if b.swapper == nil || b.host.NoRecompute {
			return nil, nil
		}
		if search, err = s.newLimitSearch(b.before, nil, 0); err != nil {
			return nil, err
		}
	}
	peak := b.before.Loads.Peak
	var limits []int64
	for percent := int64(100 - aliasStep); percent > 0; percent -= aliasStep {
		limits = append(limits, peak/100*percent+peak%100*percent/100)
	}
	least := min(peak, s.choice.limit.Bytes)
	for _, p := range search.plans(within, limits) {
		if p.Feasible != budget.Found || p.ExtraPercent > s.opt.ExtraPercent || s.search().TimeIsUp() {
			break
		}
		if len(p.Steps) == len(b.costs) {
			continue
		}
		x := s.search().Silent()
		x.Fixed, x.FixedBodies = x.Strategy != "", true
		rep := newRepetition(b.before, b.costs)
		t, err := rep.turned(ctx, s.trial(), p.Steps, nil, x, nil)
		if err != nil {
			return nil, err
		}
		if err := t.Main.Place(ctx, x); err != nil {
			return nil, err
		}
		q, err := t.Main.WithAliases(ctx, x)
		if err != nil {
			return nil, err
		}
		if q != nil && q.Loads.Peak < least {
			least, best = q.Loads.Peak, &aliasedAgain{p, rep, q}
		}
	}
	return best, nil
}

// takeAgain makes a plan with aliases, in which nodes run again, that of the main graph.
func (s *State) takeAgain(b *limitSearch, x *aliasedAgain) {
	b.repetition, b.found, b.limit = *x.repetition, x.plan, &Limit{Bytes: x.main.Loads.Peak}
	s.budget, s.main, s.model.Graph = b, x.main, x.main.G
}
