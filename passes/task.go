package passes

import (
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// task is the model that is planned, and what its plan depends on. A search has a copy of it, and
// returns what it has chosen: it cannot change the [State], whose passes alone do.
type task struct {
	opt       Options         // those that were given, with a host among the pools
	bind      planner.Binding // how the dimensions of model are bound
	model     *graph.Model
	inference *ops.Inference
	kvStates  []string        // INPUT=OUTPUT of the caches of the pass kv
	folds     *folding.Result // nil if nothing was folded
	ranged    *planner.Ranged // nil without Options.Ranges
	costs     costs.Model
	known     *base // has searches that were made, and need not be made again; nil: there are none
	fixed     bool  // the nodes of the main graph stay in the order in which the pass slice wrote them
	asItIs    bool  // nothing makes the peak of the best order smaller: see stays

	deadline time.Time          // when Options.TimeLimit ends; zero: never
	log      *planner.SearchLog // of all searches
}

// rules returns the rules of the plan: what the options ask for, and the caches that the pass
// kv has made.
func (s *task) rules() *planner.Rules {
	return &planner.Rules{
		NoViews: s.opt.NoViews, NoInplace: s.opt.NoInplace, Align: s.opt.Align, Pools: s.opt.memories(),
		States: slices.Concat(s.opt.States, s.kvStates), FindStates: s.opt.StatesAuto,
	}
}

// strategy returns the name of the strategy for the order; "": the best order. Without the pass
// order, all searches see program order, those of the passes before it, too.
func (s *task) strategy() string {
	if slices.Contains(s.opt.Disable, "order") {
		return "program"
	}
	return s.opt.Schedule
}

// search returns the search for the plan.
func (s *task) search() *planner.Search {
	x := &planner.Search{
		Search: box.Search{
			Strategy: s.strategy(), Placement: s.opt.Placement, Effort: s.opt.Effort, Goal: s.opt.Goal, Deadline: s.deadline,
			Solving:  box.Solving{Solver: s.opt.Solver, OrderTime: s.opt.SolverTime, PackTime: s.opt.SolverTime, Threads: s.opt.Threads},
			Progress: s.opt.Progress,
		},
		Ordering: planner.Ordering{
			Fixed: s.fixed, KeepRandom: s.opt.KeepRandomOrder, UpdatesLast: s.opt.UpdatesLast,
		},
		Log: s.log,
	}
	if s.opt.RuntimeOrder {
		x.Traversal = ops.LookupRuntime(s.opt.Runtime)
	}
	if s.opt.TimeLimit > 0 {
		x.Solving.OrderTime = s.opt.TimeLimit / 4
	}
	if k := s.known; k != nil {
		x.Known = &planner.KnownOrders{Problem: k.problem, Solved: k.Main.Solved}
	}
	return x
}
