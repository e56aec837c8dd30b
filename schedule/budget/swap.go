package budget

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/schedule"
)

// SwapOptions control plans with a host memory. Link must be positive.
type SwapOptions struct {
	// Effort is as in [Options]. At [schedule.EffortFast] each limit is planned
	// separately.
	Effort schedule.Effort

	// Link is the bandwidth of the link to the host in bytes per second, in each of
	// the two directions at the same time.
	Link int64

	// NoRecompute excludes plans in which nodes run again.
	NoRecompute bool

	// KeepOrders, Final, Part and Known are as in [Options].
	KeepOrders bool
	Final      []bool
	Part       int64
	Known      [][]int

	// Stays marks the tensors of the problem that must not be swapped out; nil marks
	// none.
	Stays []bool

	without []string // parts of the search to leave out, by name: for the ablation
}

// Swap is a tensor that is copied to the host, freed, and copied back later. All steps
// are positions in [SwapPlan].Steps, transfers included.
type Swap struct {
	Tensor int32 // in the problem that the caller gave
	Bytes  int64

	// The transfer out may begin once the last reader before step Out has ended. At
	// step Out it has ended and the bytes are free. The transfer back begins at step
	// In, and the tensor takes its bytes again from that step on.
	Out, In int
}

// SwapPlan is a plan that may swap tensors out to a host and back in.
type SwapPlan struct {
	// Plan is a plan of Problem. ExtraCost includes the repeated runs and Waiting.
	// There is no lower bound; Feasible is Impossible only if some node needs more
	// than the limit for its own inputs and outputs, or all inputs or outputs do.
	Plan

	// Problem is the given problem with the transfers as nodes. If the given problem has
	// n nodes and m tensors, node n+2k reads tensor Swaps[k].Tensor and makes tensor
	// m+2k, its copy on the host (0 bytes here). Node n+2k+1 reads that copy and makes
	// tensor m+2k+1, which replaces the original for all readers that run later.
	Problem *schedule.Problem
	Swaps   []Swap
	Waiting int64 // nanoseconds that steps wait for transfers; part of ExtraCost
}

// The operators of the transfers in [SwapPlan.Problem].
const (
	OpSwapOut = "SwapOut"
	OpSwapIn  = "SwapIn"
)

// Swapper plans one problem with a host memory, for any number of limits. It is not safe
// for concurrent use.
type Swapper struct {
	opt           SwapOptions
	p             *schedule.Problem
	orders        [][]int32
	recomputeOnly *Solver        // of the given orders; it is not filled
	lines         []*lineSwapper // one for each order
	swapOnly      []swapProblem  // plans without recomputation, for the limits of the grid
	combined      []combined     // once asked for: without swaps, then with several sets of swaps
	filled        bool           // swapOnly is complete
	spent         int64          // the work of all plans without recomputation so far
}

// NewSwapper checks the options, the problem and the orders to plan from; see [New].
func NewSwapper(p *schedule.Problem, orders [][]int32, opt SwapOptions) (*Swapper, error) {
	if opt.Link <= 0 {
		return nil, fmt.Errorf("link of %d bytes per second: expected more than 0", opt.Link)
	}
	recomputeOnly, err := New(p, orders, Options{Effort: opt.Effort, NoBound: true, Final: opt.Final, without: opt.without})
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(p)
	if err != nil {
		return nil, err
	}
	s := &Swapper{opt: opt, p: p, orders: orders, recomputeOnly: recomputeOnly}
	for _, l := range recomputeOnly.lines {
		s.lines = append(s.lines, newLineSwapper(p, l, rules, opt))
	}
	return s, nil
}

// Solve returns the cheapest plan that it finds with a peak of at most limit
// bytes.
func (s *Swapper) Solve(ctx context.Context, limit int64) *SwapPlan {
	return s.Frontier(ctx, []int64{limit})[0]
}

// Frontier returns a plan for each limit: the cheapest that swaps only, recomputes only,
// or does both. Except at [schedule.EffortFast], each of the three kinds has an archive
// that does not depend on the limits, so the larger of two limits never costs more.
func (s *Swapper) Frontier(ctx context.Context, limits []int64) []*SwapPlan {
	work := &work{ctx: ctx, without: s.opt.without}
	found := make([]*SwapPlan, len(limits))
	below := len(s.p.Nodes) > 0 && slices.ContainsFunc(limits, func(l int64) bool { return l < s.recomputeOnly.best })
	if below {
		s.planSwapOnly(work, limits)
	}
	for i, limit := range limits {
		found[i] = &SwapPlan{Plan: *s.recomputeOnly.plan(work, limit), Problem: s.p}
		found[i].take(s.cheapestSwapOnly(limit))
	}
	// A plan without extra time cannot be improved.
	extra := slices.ContainsFunc(found, func(x *SwapPlan) bool { return x.Feasible != Found || x.ExtraCost > 0 })
	if below && extra && !s.opt.NoRecompute {
		s.addRecompute(ctx, limits, found)
	}
	s.spent += work.done
	for i := range found {
		found[i].Ended = work.cause()
		if found[i].Ended == nil && ctx != nil && ctx.Err() != nil {
			found[i].Ended = context.Cause(ctx)
		}
	}
	return found
}

// Work is that of all plans so far, as that of a [Solver].
func (s *Swapper) Work() int64 {
	work := s.spent
	for i := range s.combined {
		work += s.combined[i].solver.Work()
	}
	return work
}

// planSwapOnly fills swapOnly.
func (s *Swapper) planSwapOnly(w *work, limits []int64) {
	if w.leavesOut("swap alone") {
		return
	}
	if s.opt.Effort == schedule.EffortFast {
		s.swapOnly = s.swapOnly[:0]
		for _, limit := range limits {
			if limit < s.recomputeOnly.best {
				for _, h := range s.lines {
					s.swapOnly = append(s.swapOnly, h.swapOnly(w, limit, 0, 1)...)
				}
			}
		}
		return
	}
	if s.filled {
		return
	}
	s.filled = true
	effort := 1
	if s.opt.Effort == schedule.EffortMax {
		effort = 10
	}
	for i, limit := range s.recomputeOnly.grid() {
		for _, h := range s.lines {
			s.swapOnly = append(s.swapOnly, h.swapOnly(w, limit, uint64(i), effort)...)
		}
	}
}

// cheapestSwapOnly returns the cheapest plan of swapOnly within a limit, or nil if there is
// none or the limit needs no plan.
func (s *Swapper) cheapestSwapOnly(limit int64) *SwapPlan {
	var best *swapProblem
	for i := range s.swapOnly {
		if x := &s.swapOnly[i]; x.peak <= limit && (best == nil || x.waiting < best.waiting) {
			best = x
		}
	}
	if best == nil || limit >= s.recomputeOnly.best {
		return nil
	}
	x := &SwapPlan{Problem: best.problem, Waiting: best.waiting}
	x.Limit, x.Feasible, x.PeakBytes = limit, Found, best.peak
	x.PlainCost, x.ExtraCost = s.recomputeOnly.lines[0].plain, best.waiting
	for _, v := range best.order {
		x.Steps = append(x.Steps, int(v))
	}
	x.Swaps = best.swaps(x.Steps)
	return x
}

// bestForRecompute returns the order for plans that both swap and recompute: the one in
// which recomputation alone is cheapest. Orders with the same small peak differ: at 60 %,
// ResNet-50's step has three times the extra time in one order that it has in another,
// and swapping does not make up for that.
func (s *Swapper) bestForRecompute(w *work) *lineSwapper {
	if len(s.lines) == 1 {
		return s.lines[0]
	}
	return s.lines[s.recomputeOnly.rankLines(s.recomputeOnly.chainers(w), s.recomputeOnly.grid())[0].index]
}

// addRecompute adds plans with recomputation, with and without transfers. The problems
// share nothing, so they are solved in parallel.
func (s *Swapper) addRecompute(ctx context.Context, limits []int64, found []*SwapPlan) {
	if s.combined == nil {
		w := &work{ctx: ctx, most: math.MaxInt64}
		// The search without a link, as a whole: with one, no plan costs more.
		alone, err := New(s.p, s.orders, Options{Effort: s.opt.Effort, KeepOrders: s.opt.KeepOrders, Final: s.opt.Final, Part: s.opt.Part, Known: s.opt.Known, without: s.opt.without})
		if err != nil {
			panic("swap: " + err.Error()) // NewSwapper has checked the problem and the orders
		}
		s.combined = append([]combined{{solver: alone, swapProblem: swapProblem{problem: s.p}}}, s.bestForRecompute(w).combinedProblems(w, s.recomputeOnly)...)
		if slices.Contains(s.opt.without, "swap and recompute") {
			s.combined = s.combined[:1]
		}
		if slices.Contains(s.opt.without, "recompute alone") {
			s.combined = s.combined[1:]
		}
	}
	plans := make([][]*Plan, len(s.combined))
	var all bug.Group
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range s.combined {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			plans[i] = s.combined[i].solver.Frontier(ctx, limits)
		})
	}
	all.Wait()
	for i, list := range plans {
		m := &s.combined[i]
		for k, p := range list {
			x := &SwapPlan{Plan: *p, Problem: m.problem, Waiting: m.waiting}
			x.LowerBound, x.LowerBoundPercent = 0, 0 // of plans without swaps
			x.ExtraCost += m.waiting
			if len(m.set) > 0 {
				x.Swaps = m.swaps(x.Steps)
			}
			found[k].take(x)
		}
	}
}

// take replaces the plan x by y if y is cheaper, or if x has found none. The fields that
// do not depend on the plan stay.
func (x *SwapPlan) take(y *SwapPlan) {
	if y == nil {
		return
	}
	lowest := x.Lowest
	if y.Lowest > 0 {
		lowest = min(lowest, y.Lowest)
	} else if y.Feasible == Found {
		lowest = min(lowest, y.PeakBytes)
	}
	if y.Feasible == Found && (x.Feasible != Found || y.ExtraCost < x.ExtraCost) {
		y.LeastBytes, y.PlainCost = x.LeastBytes, x.PlainCost
		y.ExtraPercent = share(y.ExtraCost, y.PlainCost)
		*x = *y
	}
	x.Lowest = lowest
}
