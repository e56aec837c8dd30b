// Package limits searches for plans that need less memory than the best order does, at the cost of
// time: below a limit, within some extra time, or in several pools. A search is a function of a [Task]
// to what it has chosen; it changes nothing that it was given.
package limits

import (
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/pools"
)

// Task is a model that is to be planned, how it is planned, what the plan is to keep, and what may be
// done for that.
type Task struct {
	planner.Trial // the model; its main graph, if it is known yet, is in its best order

	Rules   *planner.Rules
	How     planner.Search // for the order and the places
	Costs   costs.Model
	Asked   Asked
	Permits Permits
	Folds   *folding.Result // nil if nothing was folded

	asItIs bool // nothing makes the peak of the best order smaller: see stays
}

// Asked says what a plan is to keep.
type Asked struct {
	Limit    *Limit  // nil: none
	Extra    float64 // extra time, in per cent: without a limit, the smallest peak within it is looked for; 0: none
	Frontier bool    // the costs of other limits are wanted
}

// Limit bounds the memory of a plan.
type Limit struct {
	Bytes   int64
	Percent float64 // of the peak without a limit; replaces Bytes if it is greater than 0
	Arena   bool    // the limit holds for the arena, too, and not only for the peak
}

// Of returns the limit with its bytes, given the peak without a limit.
func (l *Limit) Of(peak int64) *Limit {
	if l.Percent > 0 {
		return &Limit{Bytes: int64(math.Floor(l.Percent / 100 * float64(peak))), Arena: l.Arena}
	}
	return l
}

// Permits say what may be done to need less memory.
type Permits struct {
	Recompute    bool  // nodes may run again
	Recast       bool  // casts of what stays may, without a limit, too
	Link         int64 // tensors may be swapped to a host at that many bytes per second, in each direction; 0: there is none
	Slices       bool  // regions may run in slices
	Sums         bool  // these may divide sums
	Inside       bool  // regions may run in slices inside of slices
	Compact      bool  // calls have the nodes of slices
	Aliases      bool  // nodes that only move bytes may share them with their operands
	AliasesAgain bool  // they may in a graph that was changed, too
	Pools        pools.May
}

// host is a memory to which tensors may be swapped.
type host struct {
	link      int64 // bytes per second, in each direction
	swapsOnly bool  // no node runs again
}

// host returns the memory to which tensors may be swapped; nil if there is none.
func (p *Permits) host() *host {
	if p.Link == 0 {
		return nil
	}
	return &host{p.Link, !p.Recompute}
}

// search returns a copy of the search for the plan.
func (s *Task) search() *planner.Search {
	x := s.How
	return &x
}

// Choice is what a search has decided, for what follows it.
type Choice struct {
	Limit  *Limit // in bytes: the plan keeps it; nil: none
	Target int64  // the peak to plan for first, where the arena of plans above it exceeds the limit; 0: the limit
}
