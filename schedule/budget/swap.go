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

// SwapOptions say what a host memory may be used for.
type SwapOptions struct {
	// Effort as in [Options]. At [schedule.EffortFast] a plan is made for each
	// limit alone.
	Effort schedule.Effort

	// Link is how many bytes a second the link to the host carries, out and back
	// at the same time.
	Link int64

	// NoRecompute leaves plans out in which nodes run again.
	NoRecompute bool

	// Stays tells which tensors of the problem may not leave; nil: all may.
	Stays []bool
}

// Swap is a tensor that leaves for the host and returns. All steps are positions
// in [SwapPlan].Steps, transfers included.
type Swap struct {
	Tensor int32 // of the problem asked about
	Bytes  int64

	// The transfer out may begin once the last reader before Out has ended; Out
	// is the step at which it has ended and the bytes are free. The transfer back
	// begins at In and takes its bytes from there on.
	Out, In int
}

// SwapPlan is a step that keeps a limit with transfers to a host and back.
type SwapPlan struct {
	// Plan is one of Problem. ExtraCost holds the repetitions and the waiting.
	// There is no lower bound; what is called impossible is a node that needs
	// more than the limit for what it reads and makes.
	Plan

	// Problem is the problem asked about with the transfers as nodes. With n nodes
	// and m tensors there, node n+2k takes tensor Swaps[k].Tensor out and makes
	// tensor m+2k, its copy in the host (0 bytes here); node n+2k+1 reads that and
	// makes tensor m+2k+1, which those read that run after it in the order.
	Problem *schedule.Problem
	Swaps   []Swap
	Waiting int64 // nanoseconds for which steps wait for transfers, part of ExtraCost
}

// The operators of the transfers in [SwapPlan.Problem].
const (
	OpSwapOut = "SwapOut"
	OpSwapIn  = "SwapIn"
)

// Swapper answers for any number of limits of one problem with a host. It is not
// safe for use by several goroutines at once.
type Swapper struct {
	opt           SwapOptions
	p             *schedule.Problem
	recomputeOnly *Solver        // repetitions alone
	lines         []*lineSwapper // for each order
	swapOnly      []swapProblem  // swapping alone, for limits of the grid
	combined      []combined
	filled        bool
}

// NewSwapper checks the problem and the orders to plan from; see [New].
func NewSwapper(p *schedule.Problem, orders [][]int32, opt SwapOptions) (*Swapper, error) {
	if opt.Link <= 0 {
		return nil, fmt.Errorf("link of %d bytes a second: expected more than nothing", opt.Link)
	}
	recomputeOnly, err := New(p, orders, Options{Effort: opt.Effort, NoBound: true})
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(p)
	if err != nil {
		return nil, err
	}
	s := &Swapper{opt: opt, p: p, recomputeOnly: recomputeOnly}
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

// Frontier returns a plan for each of some limits: the cheapest of swapping
// alone, of repetitions alone, and of both together. But at
// [schedule.EffortFast] each of the three has an archive that does not depend on
// the limits, so that of two limits the larger never costs more.
func (s *Swapper) Frontier(ctx context.Context, limits []int64) []*SwapPlan {
	work := &work{ctx: ctx}
	found := make([]*SwapPlan, len(limits))
	below := slices.ContainsFunc(limits, func(l int64) bool { return l < s.recomputeOnly.best })
	if below {
		s.planSwapOnly(work, limits)
	}
	for i, limit := range limits {
		found[i] = &SwapPlan{Plan: *s.recomputeOnly.plan(work, limit), Problem: s.p}
		found[i].take(s.cheapestSwapOnly(limit))
	}
	// Where nothing waits, nothing is better.
	costs := slices.ContainsFunc(found, func(x *SwapPlan) bool { return x.Feasible != Found || x.ExtraCost > 0 })
	if below && costs && !s.opt.NoRecompute {
		s.addRecompute(ctx, limits, found)
	}
	for i := range found {
		found[i].Ended = work.cause()
		if found[i].Ended == nil && ctx != nil && ctx.Err() != nil {
			found[i].Ended = context.Cause(ctx)
		}
	}
	return found
}

// planSwapOnly fills the archive of plans that only swap.
func (s *Swapper) planSwapOnly(w *work, limits []int64) {
	if s.opt.Effort == schedule.EffortFast {
		s.swapOnly = s.swapOnly[:0]
		for _, limit := range limits {
			if limit < s.recomputeOnly.best {
				for _, h := range s.lines {
					s.swapOnly = append(s.swapOnly, h.auto(w, limit, 0, 1)...)
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
			s.swapOnly = append(s.swapOnly, h.auto(w, limit, uint64(i), effort)...)
		}
	}
}

// cheapestSwapOnly returns the cheapest plan that only swaps, or nil.
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
// which recomputation alone is cheapest. Orders of the same small peak differ much: the
// extra time of ResNet-50's step at 60 % is three times as long in one as in another,
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
		s.combined = append([]combined{{solver: s.recomputeOnly, swapProblem: swapProblem{problem: s.p}}}, s.bestForRecompute(w).combinedProblems(w, s.recomputeOnly)...)
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
			x.ExtraCost += m.waiting
			if len(m.set) > 0 {
				x.Swaps = m.swaps(x.Steps)
			}
			found[k].take(x)
		}
	}
}

// take replaces a plan by one that is cheaper or the first; what holds for the
// problem asked about stays.
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
		if y.PlainCost > 0 {
			y.ExtraPercent = 100 * float64(y.ExtraCost) / float64(y.PlainCost)
		}
		*x = *y
	}
	x.Lowest = lowest
}
