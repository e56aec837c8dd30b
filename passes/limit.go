package passes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Limit is what a plan shall fit into.
type Limit struct {
	Bytes   int64
	Percent float64 // of the best order's peak, in the place of Bytes where it is more than 0
	Arena   bool    // the arena shall fit, not only the peak
}

// LimitError says that no plan below a limit was found.
type LimitError struct {
	LimitBytes  int64
	Arena       bool  // it is the arena's
	PeakBytes   int64 // of the best order
	LowestBytes int64 // the lowest limit that can be served, of the peak; 0: not known
	Impossible  bool  // proven: whatever the order and whatever runs again

	// Of what is impossible: a node, what must be there while it runs, and the
	// tensors that this is made of.
	Node      string
	NeedBytes int64
	Tensors   []string
}

// mostNamed is how many tensors a message names.
const mostNamed = 5

// Error says what was asked for, what is impossible and why, and what can be had.
func (e *LimitError) Error() string {
	what := "peak"
	if e.Arena {
		what = "arena"
	}
	msg := fmt.Sprintf("limit of %s: no plan found whose %s fits", units.Bytes(e.LimitBytes), what)
	if e.Impossible {
		msg = fmt.Sprintf("limit of %s: impossible", units.Bytes(e.LimitBytes))
		if e.Node != "" {
			msg += fmt.Sprintf(": %s cannot run in less than %s", e.Node, units.Bytes(e.NeedBytes))
			for i, t := range e.Tensors {
				switch {
				case i == 0:
					msg += ", for"
				case i == mostNamed:
					return e.lowest(msg + fmt.Sprintf(" and %d more", len(e.Tensors)-mostNamed))
				default:
					msg += ","
				}
				msg += fmt.Sprintf(" %q", graph.Short(t))
			}
		}
	}
	return e.lowest(msg)
}

func (e *LimitError) lowest(msg string) string {
	if e.LowestBytes > 0 {
		msg += fmt.Sprintf(": the lowest limit with a plan is %s", units.Bytes(e.LowestBytes))
	}
	return msg
}

// limitTries is how often a plan is made for less than the limit because the arena,
// or a view that had to be made again, took more.
const limitTries = 4

// limit makes nodes run again, or tensors leave for a host, where the best order does
// not fit, and says what other limits cost, if that is asked for.
func limit(ctx context.Context, s *State) error {
	if s.opt.Limit == nil && !s.opt.Frontier {
		return nil
	}
	b, err := s.newBudget()
	if err != nil {
		return err
	}
	search, end := s.searching(ctx)
	defer end()
	// With the archive that more than the least effort builds it costs nothing.
	if s.opt.Frontier || s.opt.Effort != schedule.EffortFast && b.limit < b.before.loads.Peak {
		s.frontier = b.frontier(search)
	}
	if s.opt.Limit == nil {
		return nil
	}
	s.budget = b
	target := b.limit
	for range limitTries {
		p := b.within(search, target)
		if p.Ended != nil {
			s.late = true
		}
		if p.Feasible != budget.Found {
			if target < b.limit && p.Feasible == budget.Impossible {
				p.Feasible = budget.NoneFound // the limit itself may be possible
			}
			return b.error(p)
		}
		if b.found = p; len(p.Steps) > len(b.costs) {
			tensors := b.swapped()
			s.keepOrder = len(tensors) > 0 // another order knows nothing of transfers
			if err := s.repeat(ctx, &b.repetition, p.Steps, tensors); err != nil {
				return err
			}
			if s.keepOrder {
				if err := s.model.AddSwaps(); err != nil {
					return err
				}
			}
		}
		held := s.main.loads.Peak
		if held <= b.limit && s.opt.Limit.Arena {
			if err := s.place(ctx, s.main); err != nil {
				return err
			}
			held = s.main.arena
		}
		if held <= b.limit {
			return nil
		}
		target = min(target-1, int64(float64(b.limit)*float64(p.PeakBytes)/float64(held)))
	}
	return b.error(&budget.SwapPlan{Plan: budget.Plan{Lowest: b.within(search, b.limit).Lowest}})
}

// budgeting is the search for plans below limits, and the main graph that they are
// made of.
type budgeting struct {
	repetition
	limit   int64 // bytes
	arena   bool
	solver  *budget.Solver  // nil where tensors may leave
	swapper *budget.Swapper // nil where none may
	host    *Host
	found   *budget.SwapPlan // the one that was taken
}

// newBudget sets up the search for the main graph, whose nodes stand in the best
// order.
func (s *State) newBudget() (*budgeting, error) {
	b := &budgeting{repetition: *s.repeatable()}
	r := b.before
	p := s.budgetProblem(r, b.costs)
	// The best order first, then others of its peak: they differ away from it, where
	// the limit will lie. Program order keeps things in their places, and that can be
	// worth more than a smaller peak to begin with.
	orders := [][]int32{identity(len(p.Nodes))}
	for _, order := range append(slices.Clip(r.solved.Orders), r.solved.ProgramOrder) {
		steps := make([]int32, len(order))
		for i, n := range order {
			steps[i] = int32(r.step[n])
		}
		orders = append(orders, steps)
	}
	var err error
	if b.host = s.opt.Host; b.host == nil {
		b.solver, err = budget.New(p, distinct(orders), budget.Options{
			Effort: s.opt.Effort, KeepOrders: s.opt.Schedule != "" || s.opt.KeepRandomOrder || s.opt.UpdatesLast,
		})
	} else {
		b.swapper, err = budget.NewSwapper(p, distinct(orders), budget.SwapOptions{
			Effort: s.opt.Effort, Link: b.host.Link, NoRecompute: b.host.NoRecompute, Stays: r.stays(p),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	if l := s.opt.Limit; l != nil {
		b.limit, b.arena = l.Bytes, l.Arena
		if l.Percent > 0 {
			b.limit = int64(math.Floor(l.Percent / 100 * float64(r.loads.Peak)))
		}
	}
	return b, nil
}

// distinct gives orders without those that stand there already.
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

// within gives the cheapest plan below a limit. One that the best order keeps costs
// nothing.
func (b *budgeting) within(ctx context.Context, limit int64) *budget.SwapPlan {
	if peak := b.before.loads.Peak; limit >= peak {
		steps := make([]int, len(b.costs))
		for i := range steps {
			steps[i] = i
		}
		return &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.Found, Steps: steps, PeakBytes: peak}}
	}
	return b.plans(ctx, []int64{limit})[0]
}

// plans gives the cheapest plan below each of some limits.
func (b *budgeting) plans(ctx context.Context, limits []int64) []*budget.SwapPlan {
	if b.swapper != nil {
		return b.swapper.Frontier(ctx, limits)
	}
	var list []*budget.SwapPlan
	for _, p := range b.solver.Frontier(ctx, limits) {
		list = append(list, &budget.SwapPlan{Plan: *p})
	}
	return list
}

// error says why there is no plan.
func (b *budgeting) error(p *budget.SwapPlan) error {
	e := &LimitError{
		LimitBytes: b.limit, Arena: b.arena, PeakBytes: b.before.loads.Peak, LowestBytes: p.Lowest,
		Impossible: p.Feasible == budget.Impossible,
	}
	if x := p.Obstacle; e.Impossible && x != nil {
		e.Node, e.NeedBytes = b.plain.Label(graph.NodeID(x.Node)), x.Bytes
		tensors := slices.Clone(x.Tensors)
		bytes := func(i int32) int64 {
			if int(i) < len(b.before.storages) {
				return b.before.storages[i].bytes
			}
			return 0
		}
		slices.SortStableFunc(tensors, func(x, y int32) int { return cmp.Compare(bytes(y), bytes(x)) })
		for _, i := range tensors {
			if bytes(i) > 0 {
				e.Tensors = append(e.Tensors, b.plain.Tensors[b.before.storages[i].tensors[0]].Name)
			}
		}
	}
	return e
}

// limited is what the plan's summary says of the limit; r is the main graph as it is
// planned.
func (b *budgeting) limited(r *region, steps []plan.Step) *plan.Limited {
	l := &plan.Limited{LimitBytes: b.limit, LimitArena: b.arena, PlainPeakBytes: b.before.loads.Peak}
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
	for i := range r.storages {
		if r.storages[i].host {
			l.SwappedBuffers++
			l.SwappedBytes += r.storages[i].bytes
		}
	}
	waiting := 0.0
	if b.host != nil {
		l.HostLink = b.host.Link
		waiting = float64(r.wait(costs, l.HostLink))
	}
	if plain > 0 {
		l.WaitingPercent = 100 * waiting / plain
		l.ExtraCostPercent = 100 * (extra + waiting) / plain
	}
	if b.host == nil {
		bound := min(b.found.LowerBoundPercent, l.ExtraCostPercent)
		l.ExtraCostBound = &bound
	}
	return l
}
