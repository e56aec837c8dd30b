package alloc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
)

// Options say how [Solve] looks for a placement. The zero value asks for the
// smallest arena, by all strategies and searches.
type Options struct {
	Strategy string // run this strategy alone; empty: all of them, then the searches
	Capacity int64  // bytes: any arena up to it is enough; 0: the smallest is wanted
	Effort   Effort // how much work to spend

	// Short cuts EffortDefault to a second or two, for callers to whom placement is
	// one step among others. It does not change the other efforts.
	Short bool

	// Solver is a solver of integer programs that works on what the search leaves open,
	// and makes the result depend on time; nil: none. If nothing is left, it confirms the
	// arena without knowing our bound. Its placements are checked here; a bound that
	// rests on it is marked in [Result.ClaimedBy].
	Solver     ilp.Solver
	SolverTime time.Duration            // it may take; 0: as long as the context
	Threads    int                      // it may use; 0: one for each core
	Progress   func(bound, arena int64) // of Solver, on any goroutine; nil: never

	without []string // parts of the search to leave out, by name: for the ablation
	work    *int64   // grows by the work of the searches; nil: not counted
}

// Validate checks the options on their own. [Solve] fails with the same error.
func (o *Options) Validate() error {
	if o.Capacity < 0 {
		return fmt.Errorf("capacity: expected 0 or more bytes, found %d", o.Capacity)
	}
	if o.Effort < EffortDefault || o.Effort > EffortMax {
		return fmt.Errorf("effort: expected EffortDefault, EffortFast or EffortMax, found %d", o.Effort)
	}
	_, err := strategiesNamed(o.Strategy)
	return err
}

// Effort bounds the work of [Solve]. Work is counted, not timed, so the result does
// not depend on the machine. If a strategy reaches the lower bound, no further work
// is done. The names are those of package schedule.
type Effort int

const (
	EffortDefault Effort = iota // seconds; a minute if a few hundred buffers stay above the bound
	EffortFast                  // a fraction of a second
	EffortMax                   // minutes: ten times the work of EffortDefault
)

// Fit is the answer to [Options].Capacity.
type Fit int8

const (
	FitUnknown Fit = iota // no placement found, and none excluded
	FitFound              // the arena is at most the capacity
	FitNever              // proven: no placement fits
)

// Result is the best placement found, and what is known about it.
type Result struct {
	Placement
	LowerBound int64  // bytes: proven, unless ClaimedBy says otherwise: no arena is smaller
	ClaimedBy  string // name and version of the solver that LowerBound rests on; empty: none
	Optimal    bool   // the arena is the lower bound
	Strategy   string // which found the placement: one of [Strategies], "gaps", "skyline" or "exact"
	Fit        Fit    // FitUnknown if no capacity was given

	// If Fit is FitNever: a few buffers that together do not fit into the capacity,
	// by ascending index. As far as a bounded search can tell, the set is minimal:
	// without any one of them, the others fit.
	Infeasible []int32

	Solver *SolverReport // what Options.Solver did; nil without one
}

// maxGaps is the number of gaps that a strategy may visit within Solve, about a
// second of work. Only tangled lifetimes of tens of thousands of buffers need more;
// [BestFit] has no such limit.
const maxGaps = 20_000_000

// large is the number of buffers above which Solve runs only the strategies that
// are near-linear. Where lifetimes are tangled, each of the others would give up
// after a second; where they are not, the skyline search is better.
const large = 1 << 16

// Solve validates the problem and looks for a small arena in three stages: the
// strategies, which are fast; the skyline search, which repeats one strategy with
// varying priorities; and the exact search, which also proves lower bounds. It
// stops when the arena is the lower bound or within the capacity, or the effort is
// spent. Of equal arenas it keeps the first.
//
// When the context ends, Solve returns the best placement so far, or the context's
// error if there is none yet. It also fails if the problem or the options are not
// valid.
func Solve(ctx context.Context, p Problem, opt Options) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	if err := opt.Validate(); err != nil {
		return Result{}, err
	}
	strategies, err := strategiesNamed(opt.Strategy)
	if err != nil {
		return Result{}, err
	}
	all := ctx
	if deadline, ok := ctx.Deadline(); ok && opt.Solver != nil {
		// One limit for both: the search takes at most half of it.
		var cancel func()
		ctx, cancel = context.WithDeadline(ctx, time.Now().Add(time.Until(deadline)/2))
		defer cancel()
	}
	v := solver{ctx: ctx, all: all, p: p, opt: opt, best: Result{LowerBound: max(p.MaxLoad(), p.fixedTop())}}
	if opt.Strategy == "" {
		v.p.work = maxGaps
	}
	for _, s := range strategies {
		if opt.Strategy == "" && (len(p.Buffers) <= large && s.OnRequest || len(p.Buffers) > large && !s.Large || opt.leavesOut(s.Name)) {
			continue
		}
		if context.Cause(ctx) != nil {
			break
		}
		if a := s.Func(v.p); len(a.Offsets) == len(p.Buffers) {
			v.offer(a, s.Name)
		}
		if v.done() {
			break
		}
	}
	if v.best.Strategy == "" {
		return Result{}, context.Cause(ctx)
	}
	if opt.Strategy != "" || v.done() {
		return v.end()
	}
	var gaps *gapPlacer
	if p.hasGaps() {
		gaps = newGapPlacer(p, v.effort().treeNodes/8)
	}
	if gaps != nil && !opt.leavesOut("gaps before") {
		v.placeInGaps(gaps)
	}
	if !v.done() {
		v.search()
	}
	if gaps != nil && !v.done() && !opt.leavesOut("gaps after") {
		v.climbInGaps(gaps)
	}
	if gaps != nil {
		opt.spend(int64(v.effort().treeNodes/8 - gaps.work))
	}
	return v.end()
}

// end asks the solver, if there is one, and returns the result.
func (v *solver) end() (Result, error) {
	if v.opt.Solver != nil {
		if err := v.ask(); err != nil {
			return Result{}, err
		}
	}
	return v.result(), nil
}

func (o *Options) leavesOut(name string) bool { return slices.Contains(o.without, name) }

// spend counts work.
func (o *Options) spend(work int64) {
	if o.work != nil {
		*o.work += work
	}
}

// solver is one call of Solve.
type solver struct {
	ctx  context.Context // of the search
	all  context.Context // of the search and Options.Solver
	p    Problem
	opt  Options
	best Result

	refuted int64 // work that the exact search took to refute the capacity
}

// offer keeps a placement if its arena is smaller than the best.
func (v *solver) offer(a Placement, by string) {
	if v.best.Strategy == "" || a.Arena < v.best.Arena {
		v.best.Placement, v.best.Strategy = a, by
	}
}

// done reports whether nothing better is wanted or possible, or the context has
// ended.
func (v *solver) done() bool {
	c := v.opt.Capacity
	return v.ctx.Err() != nil || v.best.Strategy != "" &&
		(v.best.Arena == v.best.LowerBound || v.best.Arena <= c || c > 0 && v.best.LowerBound > c)
}

func (v *solver) result() Result {
	v.best.Optimal = v.best.Arena == v.best.LowerBound
	if c := v.opt.Capacity; c > 0 {
		switch {
		case v.best.Arena <= c:
			v.best.Fit = FitFound
		case v.best.LowerBound > c:
			v.best.Fit = FitNever
			v.best.Infeasible = v.infeasible(c)
		}
	}
	return v.best
}

// strategiesNamed returns the strategy with this name, or all for the empty name.
func strategiesNamed(name string) ([]Strategy, error) {
	if name == "" {
		return Strategies, nil
	}
	var names []string
	for _, s := range Strategies {
		if s.Name == name {
			return []Strategy{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("strategy %q: unknown: expected one of %s", name, strings.Join(names, ", "))
}
