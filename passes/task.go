package passes

import (
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/pools"
)

// What the options and the passes so far say to the searches, which know neither.

// rules returns the rules of the plan: what the options ask for, and the caches that the pass
// kv has made.
func (s *State) rules() *planner.Rules {
	return &planner.Rules{
		NoViews: s.opt.NoViews, NoInplace: s.opt.NoInplace, Align: s.opt.Align, Pools: s.opt.memories(),
		States: slices.Concat(s.opt.States, s.kvStates), FindStates: s.opt.StatesAuto,
	}
}

// searching returns what the options say of the search for a plan. Without the pass order, all
// searches see program order, those of the passes before it, too.
func (o *Options) searching() planner.Search {
	x := planner.Search{
		Search: box.Search{
			Strategy: o.Schedule, Placement: o.Placement, Effort: o.Effort, Goal: o.Goal,
			Solving:  box.Solving{Solver: o.Solver, OrderTime: o.SolverTime, PackTime: o.SolverTime, Threads: o.Threads},
			Progress: o.Progress,
		},
		Ordering: planner.Ordering{KeepRandom: o.KeepRandomOrder, UpdatesLast: o.UpdatesLast},
		Log:      &planner.SearchLog{},
	}
	if slices.Contains(o.Disable, "order") {
		x.Strategy = "program"
	}
	if o.RuntimeOrder {
		x.Traversal = ops.LookupRuntime(o.Runtime)
	}
	if o.TimeLimit > 0 {
		x.Solving.OrderTime = o.TimeLimit / 4
		x.Deadline = time.Now().Add(o.TimeLimit)
	}
	return x
}

// search returns the search for the plan.
func (s *State) search() *planner.Search {
	x := s.how
	x.Fixed, x.Known = s.less.fixed, s.less.known.Orders()
	return &x
}

// task returns what a search for less memory starts from.
func (s *State) task() limits.Task {
	return limits.Task{
		Trial: *s.trial(), Rules: s.rules(), How: *s.search(), Costs: s.costs, Folds: s.folded.Result,
		Asked:   limits.Asked{Limit: (*limits.Limit)(s.opt.Limit), Extra: s.opt.ExtraPercent, Frontier: s.opt.Frontier},
		Permits: s.permits(),
	}
}

// permits says what may be done to need less memory. A runtime does not know the nodes that copy
// between pools; a graph for a box of lengths stays as it is there. Recorded workspaces are of the order
// that was planned first.
func (s *State) permits() limits.Permits {
	o := &s.opt
	p := limits.Permits{
		Recompute: !o.NoRecompute, Slices: o.Slices != SlicesOff, Sums: o.Slices == SlicesAny, Inside: !o.noInside, Compact: o.Compact,
		Aliases: s.mayAlias(), AliasesAgain: o.Aliases == AliasesOn,
	}
	if o.Host != nil {
		p.Link, p.Recompute = o.Host.Link, !o.Host.NoRecompute
	}
	p.Recast = p.Recompute && len(o.Pools) == 0 && s.now.Ranged == nil && o.Runtime == "" && o.Schedule == "" && !s.less.fixed && !slices.Contains(o.Disable, "recast")
	one, unrecorded := s.now.Ranged == nil, o.Workspaces == nil
	free := one && o.Runtime == ""
	p.Pools = pools.May{
		Move: free && !o.noMoves, Apart: free && unrecorded,
		Program: one && unrecorded && !s.less.fixed && !o.RuntimeOrder && !o.UpdatesLast,
	}
	return p
}
