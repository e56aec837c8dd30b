package passes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Limit bounds the memory of a plan.
type Limit struct {
	Bytes   int64
	Percent float64 // of the best order's peak; replaces Bytes if it is greater than 0
	Arena   bool    // the limit holds for the arena, too, and not only for the peak
}

// of returns the limit with its bytes, given the best order's peak.
func (l *Limit) of(peak int64) *Limit {
	if l.Percent > 0 {
		return &Limit{Bytes: int64(math.Floor(l.Percent / 100 * float64(peak))), Arena: l.Arena}
	}
	return l
}

// choice is what the search for less memory has decided, for the passes behind it.
type choice struct {
	limit *Limit // in bytes: the plan keeps it; nil: none
	from  *base  // has searches that were made, and need not be made again; nil: there are none
}

// LimitError reports that no plan below a limit was found.
type LimitError struct {
	LimitBytes  int64
	Arena       bool  // the limit was one of the arena
	PeakBytes   int64 // of the best order
	LowestBytes int64 // the lowest limit on the peak for which there is a plan; 0: not known
	Impossible  bool  // proven: no order and no recomputation meets the limit

	// If Impossible, the proof: a node, the bytes that it needs while it runs,
	// and the tensors that these bytes belong to. Without a node, Why is plan.BoundInputs
	// or plan.BoundOutputs (the first step holds all inputs, the last all outputs), or
	// BoundUpdates.
	Node      string
	Why       string
	NeedBytes int64
	Tensors   []string

	// Slices says what bounds the slices; nil if none were asked for.
	Slices *SliceLimits
}

// mostNamed is the largest number of tensors that a message names.
const mostNamed = 5

// Error gives the limit, the proof if it is impossible, and the lowest limit that
// can be met. With slices, it says which of their bounds stands in the way.
func (e *LimitError) Error() string {
	what := "peak"
	if e.Arena {
		what = "arena"
	}
	msg := fmt.Sprintf("limit of %s: no plan found whose %s fits", units.Bytes(e.LimitBytes), what)
	if e.Impossible {
		msg = fmt.Sprintf("limit of %s: impossible", units.Bytes(e.LimitBytes))
	}
	switch x := e.Slices; {
	case x == nil && e.Impossible && e.Node != "":
		msg += fmt.Sprintf(": %s cannot run in less than %s%s", e.Node, units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil && e.Impossible && e.Why != "":
		msg += fmt.Sprintf(": %s, and cannot run in less than %s%s", holds[e.Why], units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil:
	default:
		msg += ": " + x.text(e.LimitBytes)
	}
	return e.lowest(msg)
}

// BoundUpdates is [LimitError].Why where updates run last: the first of them holds all that
// they read of other nodes, the gradients.
const BoundUpdates = "updates"

// holds says which step holds what.
var holds = map[string]string{
	plan.BoundInputs:  "the first step holds all inputs of the graph",
	plan.BoundOutputs: "the last step holds all outputs of the graph",
	BoundUpdates:      "the first update holds all gradients, since updates run last",
}

// namely lists tensors behind a figure.
func namely(tensors []string) (text string) {
	for i, t := range tensors {
		switch {
		case i == 0:
			text = ", for"
		case i == mostNamed:
			return text + fmt.Sprintf(" and %d more", len(tensors)-mostNamed)
		default:
			text += ","
		}
		text += fmt.Sprintf(" %q", graph.Short(t))
	}
	return text
}

func (e *LimitError) lowest(msg string) string {
	if e.LowestBytes > 0 {
		msg += fmt.Sprintf(": the lowest limit with a plan is %s", units.Bytes(e.LowestBytes))
	}
	return msg
}

// ExtraError reports that the plan below a limit takes more time than Options.ExtraPercent
// permits.
type ExtraError struct {
	FoundPercent   float64 // of the cheapest plan that was found
	AllowedPercent float64
}

// Error gives both figures.
func (e *ExtraError) Error() string {
	return fmt.Sprintf("the plan within the limit takes %.2f %% more time: expected at most %g %%", e.FoundPercent, e.AllowedPercent)
}

// withinExtra returns an error if a limit and extra time were asked for, and the plan takes
// more time.
func (s *State) withinExtra() error {
	if s.opt.Limit == nil || s.opt.ExtraPercent == 0 || s.plan == nil {
		return nil
	}
	if found := s.plan.Summary.Extra(); found > s.opt.ExtraPercent {
		return &ExtraError{found, s.opt.ExtraPercent}
	}
	return nil
}

// limitTries is the number of attempts with a lowered target, made when the arena
// or a recomputed view takes more than planned.
const limitTries = 4

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
	s.budget, b.limit = b, s.choice.limit
	if b.meets(b.limit) && (b.limit.Arena || b.limit.Bytes < b.before.loads.Peak) {
		b.found = b.cheapest(search, b.limit.Bytes)
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
		limit = limit.of(r.loads.Peak)
	}
	less := limit == nil || limit.Arena || limit.Bytes < r.loads.Peak || s.opt.Frontier
	if !s.opt.mayAlias() || s.ranged != nil || !less || !r.movesBytes() {
		return nil
	}
	if b.shared, err = r.sharedFirst(ctx, s.search().silent()); err != nil {
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
	s.main.give(b.shared)
	s.takeAliases(b.shared)
}

// meets reports whether the plan with aliases of the graph as it is meets a limit.
func (b *limitSearch) meets(l *Limit) bool {
	switch {
	case b.shared == nil:
		return false
	case l.Arena:
		return b.shared.arena <= l.Bytes
	}
	return b.shared.loads.Peak <= l.Bytes
}

// chooseLimit chooses the limit of the main graph, which is in its best order, and computes
// the frontier.
func (s *State) chooseLimit(search context.Context, b *limitSearch) {
	limit := b.before.loads.Peak
	if s.opt.Limit != nil {
		best := limit
		if t := s.main.traversal; t != nil {
			best = t.BestPeakBytes
		}
		s.choice.limit = s.opt.Limit.of(best)
		limit = s.choice.limit.Bytes
	} else if s.opt.ExtraPercent > 0 {
		limit = b.within(search, func(percent float64) bool { return percent <= s.opt.ExtraPercent })
		if b.meets(&Limit{Bytes: limit}) {
			limit = b.shared.loads.Peak
		}
		s.choice.limit = &Limit{Bytes: limit}
	}
	// Above the least effort, the solver builds an archive of plans, so the
	// frontier costs nothing.
	if s.opt.Frontier || b.changes() && s.opt.Effort != schedule.EffortFast && limit < b.before.loads.Peak {
		s.frontier = b.frontier(search)
	}
}

// changes reports whether the search may change the graph.
func (b *limitSearch) changes() bool { return b.solver != nil || b.swapper != nil }

// keepLimit makes the main graph one that keeps the limit: it runs nodes again, or swaps.
func (s *State) keepLimit(ctx, within context.Context, x *search) error {
	b, limit := s.budget, s.budget.limit.Bytes
	target := limit
	for range limitTries {
		p := b.cheapest(within, target)
		if p.Ended != nil {
			x.log.timedOut = true
		}
		if p.Feasible != budget.Found {
			if target < limit && p.Feasible == budget.Impossible {
				p.Feasible = budget.NoneFound // the limit itself may be possible
			}
			return b.error(within, p)
		}
		if b.found = p; len(p.Steps) > len(b.costs) {
			tensors := b.swapped()
			// Another order would not fit the transfers. A strategy would order the nodes that
			// run again otherwise, and not keep the limit.
			x.fixed, x.fixedBodies = len(tensors) > 0 || x.Strategy != "", true
			if err := s.repeat(ctx, &b.repetition, p.Steps, tensors, x, &box.Ceiling{Bytes: limit, Arena: b.limit.Arena}); err != nil {
				return err
			}
			if len(tensors) > 0 {
				if err := s.model.AddSwaps(); err != nil {
					return err
				}
			}
		}
		held := s.main.loads.Peak
		if held <= limit && b.limit.Arena {
			var err error
			if held, err = s.arenaWithin(ctx, limit, x); err != nil {
				return err
			}
		}
		if held <= limit {
			return nil
		}
		target = min(target-1, int64(float64(limit)*float64(p.PeakBytes)/float64(held)))
	}
	return b.error(within, &budget.SwapPlan{Plan: budget.Plan{Lowest: b.cheapest(within, limit).Lowest}})
}

// arenaWithin places the main graph, and returns its arena.
func (s *State) arenaWithin(ctx context.Context, limit int64, x *search) (int64, error) {
	if s.ranged != nil {
		err := s.main.place(ctx, x)
		if err == nil && s.main.arena > limit && len(s.main.pools) > 0 {
			err = s.divideWithin(ctx, limit, x)
		}
		return s.main.arena, err
	}
	return s.main.placeWithin(ctx, limit, x)
}

// limitSearch searches for plans below limits; it starts from the main graph in its
// best order.
type limitSearch struct {
	repetition
	problem *schedule.Problem
	limit   *Limit          // in bytes, that the plan keeps; nil: none
	solver  *budget.Solver  // nil if tensors may be swapped, or nothing may change
	swapper *budget.Swapper // nil unless tensors may be swapped
	host    *Host
	found   *budget.SwapPlan // the plan that was chosen

	shared  *region      // the plan with aliases of the graph as it is; nil: there is no better one
	relaxed *limitSearch // of all plans with aliases, for its bounds alone; nil: those of plans without hold
}

// newLimitSearch sets up the search in a main graph, whose nodes must be in the best order.
// host is the memory to which tensors may be swapped, or nil. The search does one part of
// that many; 0: all.
func (s *State) newLimitSearch(r *region, host *Host, part int64) (*limitSearch, error) {
	costs, _ := s.costs(r)
	p := r.budgetProblem(costs)
	b := &limitSearch{repetition: *newRepetition(r, costs), problem: p, host: host}
	if k := s.choice.from; k != nil && k.search != nil && reflect.DeepEqual(k.search.problem, p) {
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
	orders := [][]int32{identity(len(p.Nodes))}
	others := slices.Clip(r.solved.Orders)
	strategy := s.strategy()
	if strategy == "" && !s.opt.UpdatesLast {
		others = append(others, r.solved.ProgramOrder)
	}
	for _, order := range others {
		steps := make([]int32, len(order))
		for i, n := range order {
			steps[i] = int32(r.stepOf[n])
		}
		orders = append(orders, steps)
	}
	keepOrders := strategy != "" || s.opt.KeepRandomOrder || s.opt.UpdatesLast
	var final []bool
	if s.opt.UpdatesLast {
		final = updateNodes(r.g)
	}
	var err error
	if b.host == nil {
		b.solver, err = budget.New(p, distinct(orders), budget.Options{
			Effort: s.opt.Effort, KeepOrders: keepOrders, Final: final, Part: part,
		})
	} else {
		b.swapper, err = budget.NewSwapper(p, distinct(orders), budget.SwapOptions{
			Effort: s.opt.Effort, Link: b.host.Link, NoRecompute: b.host.NoRecompute, Stays: r.mustStay(p),
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
func (s *State) relaxedSearch(b *limitSearch) (*limitSearch, error) {
	q, err := b.before.relaxed()
	if err != nil {
		return &limitSearch{}, nil // with too many parts nothing is proven
	}
	p, once := q.problem(), q.mustRunOnce()
	for i := range p.Nodes {
		v := &p.Nodes[i]
		v.Cost, v.Once, v.Writes = b.costs[i], once[i], []int32{}
	}
	opt := budget.Options{Effort: s.opt.Effort, NoBound: b.host != nil, KeepOrders: true}
	if s.opt.UpdatesLast {
		opt.Final = updateNodes(q.g)
	}
	solver, err := budget.New(p, [][]int32{identity(len(p.Nodes))}, opt)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return &limitSearch{repetition: repetition{before: q}, problem: p, solver: solver}, nil
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
	if peak := b.before.loads.Peak; limit >= peak || b.limit != nil && b.limit.Bytes == limit && b.meets(b.limit) {
		steps := make([]int, len(b.costs))
		for i := range steps {
			steps[i] = i
		}
		return &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.Found, Steps: steps, PeakBytes: peak}}
	}
	return b.plans(ctx, []int64{limit})[0]
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
	return b.before.loads.Peak
}

// plans returns the cheapest plan below each limit.
func (b *limitSearch) plans(ctx context.Context, limits []int64) []*budget.SwapPlan {
	if b.swapper != nil {
		return b.swapper.Frontier(ctx, limits)
	}
	var list []*budget.SwapPlan
	if b.solver == nil {
		for _, limit := range limits {
			list = append(list, &budget.SwapPlan{Plan: budget.Plan{Limit: limit, Feasible: budget.NoneFound, Lowest: b.before.loads.Peak}})
		}
		return list
	}
	for _, p := range b.solver.Frontier(ctx, limits) {
		list = append(list, &budget.SwapPlan{Plan: *p})
	}
	return list
}

// error explains why there is no plan.
func (b *limitSearch) error(ctx context.Context, p *budget.SwapPlan) error {
	e := &LimitError{
		LimitBytes: b.limit.Bytes, Arena: b.limit.Arena, PeakBytes: b.before.loads.Peak, LowestBytes: p.Lowest,
		Impossible: p.Feasible == budget.Impossible,
	}
	of, obstacle := b, p.Obstacle
	if b.shared != nil {
		e.LowestBytes = min(cmp.Or(e.LowestBytes, math.MaxInt64), b.shared.loads.Peak)
	}
	if b.relaxed != nil {
		of = b.relaxed
		obstacle = of.obstacle(ctx, e.LimitBytes)
		e.Impossible = obstacle != nil
	}
	if e.Impossible && obstacle != nil {
		of.because(e, obstacle)
	}
	return e
}

// because says why a limit is impossible.
func (b *limitSearch) because(e *LimitError, x *budget.Obstacle) {
	e.NeedBytes = x.Bytes
	switch x.Node {
	case budget.AtStart:
		e.Why = plan.BoundInputs
	case budget.AtEnd:
		e.Why = plan.BoundOutputs
	case budget.AtFinal:
		e.Why = BoundUpdates
	default:
		e.Node = b.before.g.Label(graph.NodeID(x.Node))
	}
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
			e.Tensors = append(e.Tensors, b.before.nameOf(i))
		}
	}
}

// limited summarises how the limit was met. r is the planned main graph.
func (b *limitSearch) limited(r *region, steps []plan.Step) *plan.Limited {
	l := &plan.Limited{LimitBytes: b.limit.Bytes, LimitArena: b.limit.Arena, PlainPeakBytes: b.before.loads.Peak}
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
		waiting = float64(r.waitingTime(costs, l.HostLink))
	}
	if l.RecomputedNodes == 0 && l.SwappedBuffers == 0 {
		l.PlainPeakBytes = r.loads.Peak // with aliases, it is less than before
	}
	if plain > 0 {
		l.WaitingPercent = 100 * waiting / plain
		l.ExtraCostPercent = 100 * (extra + waiting) / plain
	}
	if b.host == nil && (r.apart == nil || l.ExtraCostPercent == 0) { // plans with aliases may cost less than the search proves
		bound := min(b.found.LowerBoundPercent, l.ExtraCostPercent)
		l.ExtraCostBound = &bound
	}
	return l
}
