package flat

import (
	"context"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Goal says what a peak is to be.
type Goal struct {
	Limit       units.Limit // of the best order's peak, if it is a percentage
	Least       bool        // the smallest peak that is found instead, if the limit is missed
	Link        int64       // bytes per second to a host and back; 0: nothing is swapped
	NoRecompute bool        // swaps alone
}

// Limited is steps below a limit.
type Limited struct {
	Limit        int64 // bytes
	Feasible     int   // 1 the limit is kept, 0 proven impossible, -1 no steps found
	Steps        []int32
	Swaps        []budget.Swap
	Peak, Bound  int64   // of the steps; bytes that no steps go below (with a link: 0)
	BestOrder    int64   // the peak of the best order
	Extra        float64 // per cent of the time of a step
	ExtraAtLeast float64 // that no steps within the limit go below
	Ended        bool
}

// Below looks for steps below a limit, as the command does.
func (g *Graph) Below(ctx context.Context, goal Goal, effort schedule.Effort) (*Limited, error) {
	p, err := g.problem()
	if err != nil {
		return nil, err
	}
	switch {
	case goal.Least && goal.Link > 0:
		return nil, refusef("goal: expected no link beside the least peak: no bound is known with a host")
	case goal.NoRecompute && goal.Link <= 0:
		return nil, refusef("goal: expected a link to a host where nodes must not run again")
	case goal.Link < 0 || goal.Limit.Bytes < 0 || !(goal.Limit.Percent >= 0 && goal.Limit.Percent <= 100):
		return nil, refusef("goal: expected a limit of 0 bytes or more, or of 0 to 100 per cent, and a link of 0 or more bytes per second")
	}
	found, err := schedule.Solve(ctx, p, schedule.Options{Effort: effort})
	if err != nil {
		return nil, err
	}
	r := &Limited{BestOrder: found.Evaluation.Peak}
	defer func() { r.Ended = ctx.Err() != nil }() // also where the steps keep the limit: others may have been found
	r.Limit = goal.Limit.Of(r.BestOrder)
	if goal.Link > 0 {
		s, err := budget.NewSwapper(p, found.Orders, budget.SwapOptions{Effort: effort, Link: goal.Link, NoRecompute: goal.NoRecompute})
		if err != nil {
			return nil, &Refused{err}
		}
		x := s.Solve(ctx, r.Limit)
		r.take(&x.Plan)
		r.Swaps, r.Bound, r.ExtraAtLeast = x.Swaps, 0, 0
		return r, nil
	}
	s, err := budget.New(p, found.Orders, budget.Options{Effort: effort})
	if err != nil {
		return nil, &Refused{err}
	}
	plan := s.Solve(ctx, r.Limit)
	r.take(plan)
	if goal.Least && plan.Feasible != budget.Found {
		feasible := r.Feasible
		r.take(s.Least(ctx))
		r.Feasible = feasible
	}
	return r, nil
}

func (r *Limited) take(p *budget.Plan) {
	r.Feasible = map[budget.Verdict]int{budget.Found: 1, budget.Impossible: 0, budget.NoneFound: -1}[p.Feasible]
	r.Peak, r.Bound = p.PeakBytes, p.LeastBytes
	r.Extra, r.ExtraAtLeast = p.ExtraPercent, p.LowerBoundPercent
	r.Steps = nil
	if p.Feasible != budget.Found {
		r.Peak = p.Lowest
		return
	}
	for _, n := range p.Steps {
		r.Steps = append(r.Steps, int32(n))
	}
}

// VerifySteps checks steps and their swaps, by code that the search does not use.
func (g *Graph) VerifySteps(ctx context.Context, steps, swapped []int32) (bare.Verdict, error) {
	p, err := g.checked()
	if err != nil {
		return bare.Verdict{}, err
	}
	var swaps []bare.Swap
	for _, t := range swapped {
		swaps = append(swaps, bare.Swap{Tensor: t})
	}
	v, err := p.Steps(ctx, steps, swaps)
	if err != nil && ctx.Err() == nil {
		err = &Invalid{err}
	}
	return v, err
}
