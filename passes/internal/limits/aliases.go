package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/repeat"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// aliasStep is the step between the limits below which the main graph is planned with aliases, in
// per cent of the best order's peak.
const aliasStep = 10

// shareAgain chooses the plan with aliases of the smallest peak, of those in which nodes run again
// within the extra time; it reports whether one is below the peak of the graph as it is, and of the
// plan that is known. The graphs are those of limits that do not depend on that time, so that more of
// it never gives a larger peak: aliases save more in some graphs than in others that need less without
// them. Graphs that swap have no aliases.
func (s *Task) shareAgain(ctx, within context.Context, k *Kept) (found bool, err error) {
	b, of := k.Search, k.Trial
	if !s.Permits.AliasesAgain || s.Ranged != nil || !b.Before.MovesBytes() {
		return false, nil
	}
	search := b
	if b.solver == nil {
		if b.swapper == nil || b.host.swapsOnly {
			return false, nil
		}
		if search, err = s.newSearch(b.Before, b.casts, nil, 0, nil); err != nil {
			return false, err
		}
	}
	peak := b.Before.Loads.Peak
	var limits []int64
	for percent := int64(100 - aliasStep); percent > 0; percent -= aliasStep {
		limits = append(limits, peak/100*percent+peak%100*percent/100)
	}
	least := min(peak, k.Limit.Bytes)
	for _, p := range search.plans(within, limits) {
		if p.Feasible != budget.Found || p.ExtraPercent > s.Asked.Extra || s.search().TimeIsUp() {
			break
		}
		if len(p.Steps) == len(search.Costs) {
			continue
		}
		x := s.search().Silent()
		x.Fixed, x.FixedBodies = x.Strategy != "", true
		rep := repeat.New(search.Before, search.Costs)
		t, err := rep.Turned(ctx, of, p.Steps, nil, x, nil)
		if err != nil {
			return false, err
		}
		if again := (&Search{Repetition: *rep, found: p, limit: &Limit{}}); again.takes(t.Main) > s.Asked.Extra {
			continue // views run again, too
		}
		if err := t.Main.Place(ctx, x); err != nil {
			return false, err
		}
		q, err := t.Main.WithAliases(ctx, x)
		if err != nil {
			return false, err
		}
		if q != nil && q.Loads.Peak < least {
			t.Main, least = q, q.Loads.Peak
			k.Trial, b.Repetition, b.found, b.limit, found = t, *rep, p, &Limit{Bytes: least}, true
		}
	}
	return found, nil
}
