package passes

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

// limitSearch searches for plans below limits; it starts from the main graph in its
// best order.
type limitSearch struct {
	repeat.Repetition
	problem *schedule.Problem
	limit   *Limit          // in bytes, that the plan keeps; nil: none
	solver  *budget.Solver  // nil if tensors may be swapped, or nothing may change
	swapper *budget.Swapper // nil unless tensors may be swapped
	host    *Host
	found   *budget.SwapPlan // the plan that was chosen

	shared  *planner.Region // the plan with aliases of the graph as it is; nil: there is no better one
	relaxed *limitSearch    // of all plans with aliases, for its bounds alone; nil: those of plans without hold
}

// newLimitSearch sets up the search in a main graph, whose nodes must be in the best order.
// host is the memory to which tensors may be swapped, or nil. The search does one part of
// that many; 0: all.
func (s *task) newLimitSearch(r *planner.Region, host *Host, part int64) (*limitSearch, error) {
	costs := s.costs.Of(r.G)
	p := repeat.BudgetProblem(r, costs)
	b := &limitSearch{Repetition: *repeat.New(r, costs), problem: p, host: host}
	if k := s.known; k != nil && k.search != nil && reflect.DeepEqual(k.search.problem, p) {
		b.solver, b.swapper = k.search.solver, k.search.swapper
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
	strategy := s.strategy()
	if strategy == "" && !s.opt.UpdatesLast {
		others = append(others, r.Solved.ProgramOrder)
	}
	for _, order := range others {
		steps := make([]int32, len(order))
		for i, n := range order {
			steps[i] = int32(r.StepOf[n])
		}
		orders = append(orders, steps)
	}
	keepOrders := strategy != "" || s.opt.KeepRandomOrder || s.opt.UpdatesLast
	var final []bool
	if s.opt.UpdatesLast {
		final = planner.UpdateNodes(r.G)
	}
	var err error
	if b.host == nil {
		b.solver, err = budget.New(p, distinct(orders), budget.Options{
			Effort: s.opt.Effort, KeepOrders: keepOrders, Final: final, Part: part,
		})
	} else {
		b.swapper, err = budget.NewSwapper(p, distinct(orders), budget.SwapOptions{
			Effort: s.opt.Effort, Link: b.host.Link, NoRecompute: b.host.NoRecompute, Stays: repeat.MustStay(r, p),
			KeepOrders: keepOrders, Final: final, Part: part,
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
func (s *task) relaxedSearch(b *limitSearch) (*limitSearch, error) {
	q, err := b.Before.Relaxed()
	if err != nil {
		return &limitSearch{}, nil // with too many parts nothing is proven
	}
	p, once := q.Problem(), repeat.MustRunOnce(q)
	for i := range p.Nodes {
		v := &p.Nodes[i]
		v.Cost, v.Once, v.Writes = b.Costs[i], once[i], []int32{}
	}
	opt := budget.Options{Effort: s.opt.Effort, NoBound: b.host != nil, KeepOrders: true}
	if s.opt.UpdatesLast {
		opt.Final = planner.UpdateNodes(q.G)
	}
	solver, err := budget.New(p, [][]int32{planner.Identity(len(p.Nodes))}, opt)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return &limitSearch{Repetition: repeat.Repetition{Before: q}, problem: p, solver: solver}, nil
}

// obstacle says why a limit is impossible for a search without swaps; nil if it is not proven to be.
func (b *limitSearch) obstacle(ctx context.Context, limit int64) (o *budget.Obstacle) {
	if b.solver != nil {
		_, o = b.solver.Bound(ctx, limit)
	}
	return o
}

// distinct removes duplicates from a list of orders.
func distinct(orders [][]int32) (list [][]int32) {
	for _, order := range orders {
		known := false
		for _, other := range list {
			known = known || slices.Equal(order, other)
		}
		if !known {
			list = append(list, order)
		}
	}
	return list
}

// cheapest returns the cheapest plan below a limit: the best order itself, if it
// meets the limit.
func (b *limitSearch) cheapest(ctx context.Context, limit int64) *budget.SwapPlan {
	if limit >= b.Before.Loads.Peak {
		return b.asItIs(limit)
	}
	return b.plans(ctx, []int64{limit})[0]
}

// asItIs is the plan of the graph in its best order.
func (b *limitSearch) asItIs(limit int64) *budget.SwapPlan {
	steps := make([]int, len(b.Costs))
	for i := range steps {
		steps[i] = i
	}
	return &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.Found, Steps: steps, PeakBytes: b.Before.Loads.Peak}}
}

// within returns the smallest limit that it finds with a plan whose extra time fits: percent
// is that of a step of the graph, and a smaller one fits if a larger one does.
func (b *limitSearch) within(ctx context.Context, fits func(percent float64) bool) int64 {
	switch {
	case b.swapper != nil:
		return b.swapper.Within(ctx, fits)
	case b.solver != nil:
		return b.solver.Within(ctx, fits)
	}
	return b.Before.Loads.Peak
}

// plans returns the cheapest plan below each limit.
func (b *limitSearch) plans(ctx context.Context, limits []int64) []*budget.SwapPlan {
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

// limited summarises how the limit was met. r is the planned main graph.
func (b *limitSearch) limited(r *planner.Region, steps []plan.Step) *plan.Limited {
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
		l.HostLink = b.host.Link
		waiting = float64(repeat.WaitingTime(r, costs, l.HostLink))
	}
	if l.RecomputedNodes == 0 && l.SwappedBuffers == 0 {
		l.PlainPeakBytes = r.Loads.Peak // with aliases, it is less than before
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
func (b *limitSearch) swapped() []graph.TensorID { return b.tensors(b.found) }

// tensors returns those that a plan swaps out.
func (b *limitSearch) tensors(p *budget.SwapPlan) (tensors []graph.TensorID) {
	for _, x := range p.Swaps {
		tensors = append(tensors, b.Before.Storages[x.Tensor].Tensors[0])
	}
	return tensors
}
