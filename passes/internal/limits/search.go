package limits

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/repeat"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Search searches for plans below limits; it starts from the main graph in its
// best order.
type Search struct {
	repeat.Repetition
	problem *schedule.Problem
	limit   *Limit          // in bytes, that the plan keeps; nil: none
	solver  *budget.Solver  // nil if tensors may be swapped, or nothing may change
	swapper *budget.Swapper // nil unless tensors may be swapped
	host    *host
	found   *budget.SwapPlan // the plan that was chosen

	shared  *planner.Region // the plan with aliases of the graph as it is; nil: there is no better one
	recast  bool            // nobody asked for a limit: casts run again where that makes the peak smaller
	casts   *recasting      // what that plan is; nil: it is that of the best order
	relaxed *Search         // of all plans with aliases, for its bounds alone; nil: those of plans without hold
}

// newSearch sets up the search in a main graph, whose nodes must be in the best order. casts is the plan
// without a limit in which casts run again, or nil, which the search has from the start: it would not
// find it, since in the best order all of these casts live at once, and each saves little.
// host is the memory to which tensors may be swapped, or nil. The search does one part of
// that many; 0: all. known is another one, whose work need not be done again; nil: there is none.
func (s *Task) newSearch(r *planner.Region, casts *recasting, host *host, part int64, known *Search) (*Search, error) {
	costs := s.Costs.Of(r.G)
	p := repeat.BudgetProblem(r, costs)
	b := &Search{Repetition: *repeat.New(r, costs), problem: p, host: host, casts: casts}
	if known != nil && reflect.DeepEqual(known.problem, p) {
		b.solver, b.swapper, b.casts = known.solver, known.swapper, known.casts
		return b, nil
	}
	if s.asItIs {
		return b, nil
	}
	// The best order comes first, then others with the same peak: they differ at the steps
	// below the peak, which the limit will cut. Program order is included because
	// recomputation often needs fewer changes to it, which can be worth more than a smaller
	// initial peak. It is left out if a strategy was asked for, or updates at the end: it is
	// not theirs.
	orders := [][]int32{planner.Identity(len(p.Nodes))}
	others := slices.Clip(r.Solved.Orders)
	strategy := s.How.Strategy
	if strategy == "" && !s.How.UpdatesLast {
		others = append(others, r.Solved.ProgramOrder)
	}
	for _, order := range others {
		steps := make([]int32, len(order))
		for i, n := range order {
			steps[i] = int32(r.StepOf[n])
		}
		orders = append(orders, steps)
	}
	keepOrders := strategy != "" || s.How.KeepRandom || s.How.UpdatesLast
	var final []bool
	if s.How.UpdatesLast {
		final = planner.UpdateNodes(r.G)
	}
	var plans [][]int
	if casts != nil {
		plans = append(plans, casts.steps)
	}
	var err error
	if b.host == nil {
		b.solver, err = budget.New(p, distinct(orders), budget.Options{
			Effort: s.How.Effort, KeepOrders: keepOrders, Final: final, Part: part, Known: plans,
			Quick: s.quickOrders(r, p, keepOrders), Single: s.Asked.Limit != nil && !s.Asked.Frontier,
		})
	} else {
		b.swapper, err = budget.NewSwapper(p, distinct(orders), budget.SwapOptions{
			Effort: s.How.Effort, Link: b.host.link, NoRecompute: b.host.swapsOnly, Stays: repeat.MustStay(r, p),
			KeepOrders: keepOrders, Final: final, Part: part, Known: plans,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return b, nil
}

// relaxedSearch returns a search whose bounds hold for all plans with aliases of a main graph, in
// any order, whatever runs again: no byte counts twice that nodes only move ([region.relaxed]). Take
// such a plan, and the moment at which a node runs for the first time. What it holds of the bytes
// that some node wrote, in one place or in several, the relaxed graph holds once, and what it makes
// again later, the relaxed graph makes again, too.
func (s *Task) relaxedSearch(b *Search) (*Search, error) {
	q, err := b.Before.Relaxed()
	if err != nil {
		return &Search{}, nil // with too many parts nothing is proven
	}
	p, once := q.Problem(), repeat.MustRunOnce(q)
	for i := range p.Nodes {
		v := &p.Nodes[i]
		v.Cost, v.Once, v.Writes = b.Costs[i], once[i], []int32{}
	}
	opt := budget.Options{Effort: s.How.Effort, NoBound: b.host != nil, KeepOrders: true}
	if s.How.UpdatesLast {
		opt.Final = planner.UpdateNodes(q.G)
	}
	solver, err := budget.New(p, [][]int32{planner.Identity(len(p.Nodes))}, opt)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return &Search{Repetition: repeat.Repetition{Before: q}, problem: p, solver: solver}, nil
}

// unlimited is the peak of the plan without a limit, before nodes share bytes that they only move.
func (b *Search) unlimited() int64 {
	if b.casts != nil {
		return b.casts.peak
	}
	return b.Before.Loads.Peak
}

// obstacle says why a limit is impossible for a search without swaps; nil if it is not proven to be.
func (b *Search) obstacle(ctx context.Context, limit int64) (o *budget.Obstacle) {
	if b.solver != nil {
		_, o = b.solver.Bound(ctx, limit)
	}
	return o
}

// Work is that of the search so far, in units of package budget.
func (b *Search) Work() int64 {
	switch {
	case b.solver != nil:
		return b.solver.Work()
	case b.swapper != nil:
		return b.swapper.Work()
	}
	return 0
}

// cheapest returns the cheapest plan below a limit: the best order itself, if it
// meets the limit.
func (b *Search) cheapest(ctx context.Context, limit int64) *budget.SwapPlan {
	if limit >= b.Before.Loads.Peak {
		return b.asItIs(limit)
	}
	return b.plans(ctx, []int64{limit})[0]
}

// asItIs is the plan of the graph in its best order.
func (b *Search) asItIs(limit int64) *budget.SwapPlan {
	steps := make([]int, len(b.Costs))
	for i := range steps {
		steps[i] = i
	}
	return &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.Found, Steps: steps, PeakBytes: b.Before.Loads.Peak}}
}

// within returns the smallest limit that it finds with a plan whose extra time fits: percent
// is that of a step of the graph, and a smaller one fits if a larger one does.
func (b *Search) within(ctx context.Context, fits func(percent float64) bool) int64 {
	switch {
	case b.swapper != nil:
		return b.swapper.Within(ctx, fits)
	case b.solver != nil:
		return b.solver.Within(ctx, fits)
	}
	return b.Before.Loads.Peak
}

// plans returns the cheapest plan below each limit.
func (b *Search) plans(ctx context.Context, limits []int64) []*budget.SwapPlan {
	if b.swapper != nil {
		return b.swapper.Frontier(ctx, limits)
	}
	var list []*budget.SwapPlan
	if b.solver == nil {
		for _, limit := range limits {
			list = append(list, &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.NoneFound, Lowest: b.Before.Loads.Peak}})
		}
		return list
	}
	for _, p := range b.solver.Frontier(ctx, limits) {
		list = append(list, &budget.SwapPlan{Plan: *p})
	}
	return list
}

// Limited summarises how the limit was met. r is the planned main graph.
func (b *Search) Limited(r *planner.Region, steps []plan.Step) *plan.Limited {
	l := &plan.Limited{LimitBytes: b.limit.Bytes, LimitArena: b.limit.Arena, PlainPeakBytes: b.Before.Loads.Peak}
	plain, extra := 0.0, 0.0
	costs := make([]int64, len(steps))
	for i := range steps {
		costs[i] = steps[i].CostNS
		cost := float64(costs[i])
		if steps[i].Again != nil {
			l.RecomputedNodes++
			extra += cost
			continue
		}
		plain += cost
	}
	for i := range r.Storages {
		if r.Storages[i].Host {
			l.SwappedBuffers++
			l.SwappedBytes += r.Storages[i].Bytes
		}
	}
	waiting := 0.0
	if b.host != nil {
		l.HostLink = b.host.link
		waiting = float64(repeat.WaitingTime(r, costs, l.HostLink))
	}
	l.Recast = b.recast && l.RecomputedNodes > 0
	if l.RecomputedNodes == 0 && l.SwappedBuffers == 0 {
		l.PlainPeakBytes = r.Loads.Peak // with aliases, it is less than before
	}
	if b.casts != nil && b.casts.peak < l.PlainPeakBytes {
		l.RecastPeakBytes = b.casts.peak
	}
	if plain > 0 {
		l.WaitingPercent = 100 * waiting / plain
		l.ExtraCostPercent = 100 * (extra + waiting) / plain
	}
	if b.host == nil && (r.Apart == nil || l.ExtraCostPercent == 0) { // plans with aliases may cost less than the search proves
		bound := min(b.found.LowerBoundPercent, l.ExtraCostPercent)
		l.ExtraCostBound = &bound
	}
	return l
}

// swapped returns the tensors that the plan that was chosen swaps out.
func (b *Search) swapped() []graph.TensorID { return b.tensors(b.found) }

// tensors returns those that a plan swaps out.
func (b *Search) tensors(p *budget.SwapPlan) (tensors []graph.TensorID) {
	for _, x := range p.Swaps {
		tensors = append(tensors, b.Before.Storages[x.Tensor].Tensors[0])
	}
	return tensors
}

// limitTries is the number of attempts with a lowered target, made when the arena
// or a recomputed view takes more than planned. The last one is the lowest plan that is known.
const limitTries = 6

// meets reports whether the plan with aliases of the graph as it is meets a limit.
func (b *Search) meets(l *Limit) bool {
	switch {
	case b.shared == nil:
		return false
	case l.Arena:
		return b.shared.Arena <= l.Bytes
	}
	return b.shared.Loads.Peak <= l.Bytes
}

// fits reports whether the graph as it is meets a limit without aliases, as far as is known.
func (b *Search) fits(l *Limit) bool {
	return l.Bytes >= b.Before.Loads.Peak && (!l.Arena || b.Before.Arena > 0 && l.Bytes >= b.Before.Arena)
}

// changes reports whether the search may change the graph.
func (b *Search) changes() bool { return b.solver != nil || b.swapper != nil }

// takes returns the extra time, in per cent, of the main graph in which nodes run again.
func (b *Search) takes(r *planner.Region) float64 {
	steps := make([]plan.Step, len(r.G.Nodes))
	b.Place(r)
	b.Annotate(steps)
	return b.Limited(r, steps).ExtraCostPercent
}
