package planner

import (
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Rules say what a plan may do: what shares bytes, and in which memory buffers lie.
type Rules struct {
	NoViews   bool // every view has a buffer of its own
	NoInplace bool // no result is written over an input

	States     []string // INPUT=OUTPUT: what stays from one run to the next
	FindStates bool     // what can stay does

	Align int64    // of offsets and sizes in bytes
	Pools []Memory // of the main graph, the fastest first; nil: there is one arena
}

// Round rounds a size up to the alignment. It cannot overflow: inference refuses models
// whose sizes add up to 2^63 or more.
func (x *Rules) Round(n int64) int64 { return (n + x.Align - 1) &^ (x.Align - 1) }

// Search says which orders and placements are looked for, and with how much work.
type Search struct {
	box.Search // its solver and its progress are for the main graph alone
	Ordering

	Known     *KnownOrders // a search for the order of the main graph that was made before; nil: none
	PeakAlone bool         // any order of the main graph with the smallest peak will do: it is not placed

	Log *SearchLog
}

// Ordering says which orders are permitted, and which of those with the same peak is best.
type Ordering struct {
	KeepRandom  bool         // nodes with an effect stay in their order
	UpdatesLast bool         // of the main graph
	Traversal   *ops.Runtime // the order is a default order of that runtime; nil: any

	Fixed       bool       // the nodes of the main graph stay in their order
	FixedBodies bool       // those of bodies do
	Turns       [][2]int32 // nodes of the main graph of which the first must stay before the second
}

// fixes reports whether the nodes of a graph of that kind stay in their order.
func (x *Ordering) fixes(kind regionKind) bool {
	return x.Fixed && kind == mainGraph || x.FixedBodies && kind == controlBody
}

// KnownOrders are what a search has found for a problem.
type KnownOrders struct {
	Problem *schedule.Problem
	Solved  *schedule.Result
}

// SearchLog is what searches report beside their results.
type SearchLog struct {
	TimedOut bool     // the deadline ended one
	Notes    []string // warnings
	Sliced   int      // the nodes of all graphs with slices that were put in order
}

// Quick returns a search with the least effort, for an estimate: it asks no solver, and nobody
// hears of it.
func (x Search) Quick() *Search {
	x.Effort, x.Progress, x.Solving, x.Known, x.Log = schedule.EffortFast, nil, box.Solving{}, nil, &SearchLog{}
	return &x
}

// Silent returns a search for a variant of the main graph: it shows no progress, asks no
// solver, and starts from nothing.
func (x Search) Silent() *Search {
	x.Progress, x.Solving, x.Known = nil, box.Solving{}, nil
	return &x
}

// regionKind says whether a region's inputs and constants count in its loads.
type regionKind int8

const (
	mainGraph    regionKind = iota
	controlBody             // captured tensors lie outside
	functionBody            // captured tensors and inputs lie outside
)

// Memory is one of several pools that hold the buffers outside of resident; see Pool.
type Memory struct {
	Name           string
	Capacity       int64 // in bytes
	BytesPerSecond int64 // 0: not known
}
