package passes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/schedule"
)

// One more mean, or one less constraint, is to give no worse plan. A search then has more to choose
// from, but it is not exhaustive, and by chance finds worse. So a small graph is also planned with fewer
// permissions: without views, without results in place, with slices that leave every sum whole, and
// for the smallest peak within some time with the least effort, in all combinations. The best plan is taken, and the first of equals.

// A graph is planned more than once if it has at most lesserNodes nodes, for at most lesserPoints
// points, and if slices were looked for in graphs of at most lesserOrdering nodes together: beyond, it
// may take seconds each time. For one length, without slices and pools, so is a graph of at most lesserMost
// nodes whose first search for less memory took at most lesserWork.
const (
	lesserNodes    = 200
	lesserPoints   = 16
	lesserOrdering = 500
	lesserMost     = 2000
	lesserWork     = 20_000_000
)

// inferred is what decides whether a graph is planned more than once.
type inferred struct {
	nodes          int
	views, inplace bool // whether nodes make views, and whether results may lie over inputs
}

func inferredOf(g *graph.Graph) inferred {
	x := inferred{nodes: len(g.Nodes)}
	for _, n := range g.Nodes {
		x.views = x.views || len(n.Semantics.Views) > 0
		x.inplace = x.inplace || len(n.Semantics.Inplace) > 0
	}
	return x
}

// lesser lists the options with fewer permissions with which a model is planned, too: first those
// without slices, which take less time. What a runtime shares is not ours to choose, and neither are
// plans that the clock decides on.
func (o *Options) lesser(x inferred) []Options {
	asks := o.Limit != nil || o.ExtraPercent > 0 || len(o.Pools) > 0
	if !asks || x.nodes > o.mostNodes() || o.Runtime != "" || o.Solver != nil || o.TimeLimit > 0 || o.Passes != nil {
		return nil
	}
	if whole := *o; o.Slices != SlicesOff && !o.NoRecompute {
		whole.Slices, whole.Compact = SlicesOff, false
		return slices.Concat([]Options{whole}, whole.fewer(x), o.fewer(x))
	}
	return o.fewer(x)
}

// mostNodes is the largest number of nodes of a graph that is planned more than once.
func (o *Options) mostNodes() int {
	if o.Slices != SlicesOff || len(o.Pools) > 0 || len(o.Ranges) > 0 {
		return lesserNodes
	}
	return lesserMost
}

// quick reports whether the first plan took so little work that there may be others.
func (a *attempt) quick() bool {
	return a.inferred.nodes <= lesserNodes || a.err == nil && a.less.kept != nil && a.less.kept.Work() <= lesserWork
}

// fewer lists those that slice as the options do.
func (o *Options) fewer(x inferred) []Options {
	list := []Options{*o}
	leave := func(off func(*Options)) {
		for _, with := range slices.Clone(list) {
			off(&with)
			list = append(list, with)
		}
	}
	apart := len(o.Pools) > 0 && o.Limit == nil && o.Slices == SlicesOff && len(o.Ranges) == 0 && o.Workspaces == nil // pools.Best plans without them, too
	if !o.NoInplace && x.inplace && !apart {
		leave(func(o *Options) { o.NoInplace = true })
	}
	if !o.NoViews && x.views {
		leave(func(o *Options) { o.NoViews, o.Aliases = true, AliasesOff }) // aliases need views
	}
	if o.Limit == nil && o.ExtraPercent > 0 && o.Effort != schedule.EffortFast { // beside a limit, plans must not depend on it
		leave(func(o *Options) { o.Effort = schedule.EffortFast })
	}
	if o.Slices == SlicesAny {
		leave(func(o *Options) { o.Slices = SlicesExact })
	}
	return list[1:]
}

// attempt is a State that all passes have run on, or the error of one.
type attempt struct {
	*State
	err error
}

// runBest runs the passes of the options and, on copies of a small model, those of options with
// fewer permissions. It returns the State with the best plan, whose model is the given one.
func (s *State) runBest(ctx context.Context, times map[string]time.Duration) (*State, error) {
	if len(s.given.Graph.Nodes) > s.asked.mostNodes() || s.now.Ranged != nil && s.now.Ranged.Box.Points > lesserPoints || len(s.asked.lesser(inferred{views: true, inplace: true})) == 0 {
		return s, s.runAll(ctx, times)
	}
	from := copyOf(s.given)
	first := attempt{s, s.runAll(ctx, times)}
	best := first
	for _, opt := range s.asked.lesser(s.inferred) {
		if ctx.Err() != nil || !first.quick() || !best.mayImprove() || opt.Slices != SlicesOff && s.how.Log.Sliced > lesserOrdering {
			break
		}
		if opt.Limit != nil && opt.Limit.Percent > 0 { // of another peak than theirs
			if opt.Limit = first.limit(); opt.Limit == nil {
				break
			}
		}
		opt.Progress, opt.Trace, opt.Printed, opt.PrintAfter = nil, nil, nil, nil
		t, err := newState(copyOf(from), opt)
		if err != nil {
			return nil, err
		}
		if s.origin.untouched != nil {
			t.origin.untouched = copyOf(from)
		}
		if next := (attempt{t, t.runAll(ctx, times)}); next.better(&best) {
			best = next
		}
	}
	if best.State != s {
		best.inPlaceOf(&first)
	}
	return best.State, best.err
}

// limit returns the limit that was asked for in bytes; nil if it is not known.
func (a *attempt) limit() *Limit {
	var e *LimitError
	switch {
	case a.less.Limit != nil:
		return (*Limit)(a.less.Limit)
	case errors.As(a.err, &e):
		return &Limit{Bytes: e.LimitBytes, Arena: e.Arena}
	}
	return nil
}

// figure is one by which plans are compared, of which less is better.
type figure struct{ found, bound float64 }

// figures lists those of a plan, the first of which counts most.
func (a *attempt) figures() (list []figure) {
	x := &a.plan.Summary
	switch {
	case a.opt.Limit != nil:
		f := figure{found: x.Extra()}
		if x.Unsliced == nil && x.Limited != nil && x.ExtraCostBound != nil {
			f.bound = *x.ExtraCostBound
		}
		list = append(list, f)
	case len(a.opt.Pools) == 0:
		list = append(list, figure{found: float64(x.PeakBytes)})
	}
	if x.Tiered != nil {
		list = append(list, figure{float64(x.SlowTrafficBytes), float64(x.SlowTrafficBoundBytes)})
	}
	return list
}

// mayImprove reports whether a better plan may exist, as far as is known.
func (a *attempt) mayImprove() bool {
	var none *LimitError
	var full *PoolError
	switch {
	case errors.As(a.err, &none):
		return !none.Impossible
	case a.err != nil:
		return errors.As(a.err, &full)
	case a.plan == nil:
		return false
	}
	const rounding = 1e-9
	return slices.ContainsFunc(a.figures(), func(f figure) bool { return f.found > f.bound*(1+rounding) })
}

// better reports whether a has a plan and b has none, or a worse one. Of two without a plan, b learns
// which lower limit has one.
func (a *attempt) better(b *attempt) bool {
	var x, y *LimitError
	switch {
	case a.err != nil:
		if errors.As(a.err, &x) && errors.As(b.err, &y) && x.LowestBytes > 0 && (y.LowestBytes == 0 || x.LowestBytes < y.LowestBytes) {
			y.LowestBytes = x.LowestBytes
		}
		return false
	case b.err != nil:
		return true
	}
	return slices.CompareFunc(a.figures(), b.figures(), func(f, g figure) int { return cmp.Compare(f.found, g.found) }) < 0
}

// inPlaceOf makes the planned model the one that was given. What is said of other plans is said of
// those with all permissions: the cost of other limits, and the least that any plan costs.
func (a *attempt) inPlaceOf(first *attempt) {
	given := first.given
	*given = *a.given
	if a.now.Model == a.given {
		a.now.Model = given
	}
	a.given = given
	x := &a.plan.Summary
	if x.Limited != nil && x.ExtraCostBound != nil {
		bound := 0.0
		if first.err == nil && first.plan.Summary.Limited != nil && first.plan.Summary.ExtraCostBound != nil {
			bound = *first.plan.Summary.ExtraCostBound
		}
		*x.ExtraCostBound = min(*x.ExtraCostBound, bound)
	}
	for i := range first.less.frontier {
		if p := &first.less.frontier[i]; p.LimitBytes >= x.PeakBytes && !p.Impossible {
			extra := x.Extra()
			p.ExtraCostPercent = limits.Least(p.ExtraCostPercent, &extra)
			p.ExtraCostBound = limits.Least(p.ExtraCostBound, p.ExtraCostPercent)
		}
	}
	a.plan.Frontier = first.less.frontier
}
