package alloc

import (
	"context"
	"fmt"
	"strings"
)

// Options say how [Solve] looks for a placement. The zero value looks for the
// smallest arena with all strategies and searches.
type Options struct {
	Strategy string // run this one alone; empty: all, then the searches
	Capacity int64  // bytes; any arena up to it will do; 0: the smallest is wanted
	Effort   Effort // how much work to spend

	// Short makes EffortDefault a second or two, for a caller that places buffers
	// as one step among others. The other efforts stay as they are.
	Short bool
}

// Validate checks the options by themselves; [Solve] fails with the same error.
func (o *Options) Validate() error {
	if o.Capacity < 0 {
		return fmt.Errorf("capacity: expected 0 or more bytes, found %d", o.Capacity)
	}
	if o.Effort < EffortDefault || o.Effort > EffortMax {
		return fmt.Errorf("effort: expected EffortDefault, EffortFast or EffortMax, found %d", o.Effort)
	}
	_, err := named(o.Strategy)
	return err
}

// Effort bounds the work of [Solve]. It is counted, not timed: the result does
// not depend on the machine. A placement that the strategies prove optimal takes
// none. The efforts have the names and the order of those of package schedule.
type Effort int

const (
	EffortDefault Effort = iota // seconds; a minute where a few hundred buffers stay above the bound
	EffortFast                  // a fraction of a second
	EffortMax                   // minutes: ten times the work of EffortDefault
)

// Fit is the answer to [Options].Capacity.
type Fit int8

const (
	FitUnknown Fit = iota // not found, and not excluded
	FitFound              // the arena is at most the capacity
	FitNever              // proven: no placement is
)

// Result is the best placement found, and what is known about it.
type Result struct {
	Placement
	LowerBound int64  // bytes; no arena is smaller: proven
	Optimal    bool   // the arena is the lower bound
	Strategy   string // what found it: one of [Strategies], "gaps", "skyline" or "exact"
	Fit        Fit    // unknown where no capacity was asked for

	// Where Fit is FitNever: buffers that alone do not fit into the capacity,
	// few of them, by ascending index. None of them can be left out, as far as
	// a bounded search could tell.
	Infeasible []int32
}

// mostGaps is how many gaps a strategy may look at within Solve, about a second
// of work. Only tangled lifetimes of tens of thousands of buffers need more;
// [BestFit] has no such limit.
const mostGaps = 20_000_000

// large is the number of buffers beyond which Solve tries the strategies only
// that are made for it: the others would take a second each to give up where
// lifetimes are tangled, and the skyline search does better where they are not.
const large = 1 << 16

// Solve validates the problem and looks for a small arena, in three stages: the
// strategies, of equal arenas the first in [Strategies]; the skyline search,
// which varies priorities; and the exact search, which also proves. It stops as
// soon as the arena is the lower bound, or within the capacity, and where the
// effort is spent.
//
// When the context ends it returns the best placement so far. It fails if the
// problem is not valid, if no strategy has the name asked for, or with the
// context's error if there is no placement yet.
func Solve(ctx context.Context, p Problem, opt Options) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	if err := opt.Validate(); err != nil {
		return Result{}, err
	}
	tried, err := named(opt.Strategy)
	if err != nil {
		return Result{}, err
	}
	v := solver{ctx: ctx, p: p, opt: opt, best: Result{LowerBound: max(p.MaxLoad(), p.fixedTop())}}
	if opt.Strategy == "" {
		v.p.work = mostGaps
	}
	for _, s := range tried {
		if opt.Strategy == "" && (len(p.Buffers) <= large && s.Alone || len(p.Buffers) > large && !s.Large) {
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
		return v.result(), nil
	}
	var gaps *gapPlacer
	if p.hasGaps() {
		gaps = newGapPlacer(p, v.effort().look/8)
	}
	if gaps != nil {
		v.useGaps(gaps, false)
	}
	if !v.done() {
		v.search()
	}
	if gaps != nil && !v.done() {
		v.useGaps(gaps, true)
	}
	return v.result(), nil
}

// solver is one call of Solve.
type solver struct {
	ctx  context.Context
	p    Problem
	opt  Options
	best Result

	refuted int64 // work that the exact search took to refute the capacity
}

// offer keeps a placement if it is smaller than the best.
func (v *solver) offer(a Placement, by string) {
	if v.best.Strategy == "" || a.Arena < v.best.Arena {
		v.best.Placement, v.best.Strategy = a, by
	}
}

// done says that nothing better is wanted or possible, or that time is out.
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

// named returns the strategy of a name, or all of them for the empty name.
func named(name string) ([]Strategy, error) {
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
