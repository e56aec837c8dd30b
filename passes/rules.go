package passes

import (
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// The planner is a function of a graph whose types are known, the rules, and a search: share
// gives the storages, order the steps, place the offsets. It knows no options and no pass.

// rules say what a plan may do: what shares bytes, and in which memory buffers lie.
type rules struct {
	noViews   bool // every view has a buffer of its own
	noInplace bool // no result is written over an input

	states     []string // INPUT=OUTPUT: what stays from one run to the next
	findStates bool     // what can stay does

	align int64    // of offsets and sizes in bytes
	pools []memory // of the main graph, the fastest first; nil: there is one arena
}

// round rounds a size up to the alignment. It cannot overflow: inference refuses models
// whose sizes add up to 2^63 or more.
func (x *rules) round(n int64) int64 { return (n + x.align - 1) &^ (x.align - 1) }

// search says which orders and placements are looked for, and with how much work.
type search struct {
	box.Search // its solver and its progress are for the main graph alone
	ordering

	known     *knownOrders // a search for the order of the main graph that was made before; nil: none
	peakAlone bool         // any order of the main graph with the smallest peak will do: it is not placed

	log *searchLog
}

// ordering says which orders are permitted, and which of those with the same peak is best.
type ordering struct {
	keepRandom  bool         // nodes with an effect stay in their order
	updatesLast bool         // of the main graph
	traversal   *ops.Runtime // the order is a default order of that runtime; nil: any

	fixed       bool       // the nodes of the main graph stay in their order
	fixedBodies bool       // those of bodies do
	turns       [][2]int32 // nodes of the main graph of which the first must stay before the second
}

// fixes reports whether the nodes of a graph of that kind stay in their order.
func (x *ordering) fixes(kind regionKind) bool {
	return x.fixed && kind == mainGraph || x.fixedBodies && kind == controlBody
}

// knownOrders are what a search has found for a problem.
type knownOrders struct {
	problem *schedule.Problem
	solved  *schedule.Result
}

// searchLog is what searches report beside their results.
type searchLog struct {
	timedOut bool     // the deadline ended one
	notes    []string // warnings
}

// quick returns a search with the least effort, for an estimate: it asks no solver, and nobody
// hears of it.
func (x search) quick() *search {
	x.Effort, x.Progress, x.Solving, x.known, x.log = schedule.EffortFast, nil, box.Solving{}, nil, &searchLog{}
	return &x
}

// silent returns a search for a variant of the main graph: it shows no progress, asks no
// solver, and starts from nothing.
func (x search) silent() *search {
	x.Progress, x.Solving, x.known = nil, box.Solving{}, nil
	return &x
}

// regionKind says whether a region's inputs and constants count in its loads.
type regionKind int8

const (
	mainGraph    regionKind = iota
	controlBody             // captured tensors lie outside
	functionBody            // captured tensors and inputs lie outside
)

// memory is one of several pools that hold the buffers outside of resident; see Pool.
type memory struct {
	Name           string
	Capacity       int64 // in bytes
	BytesPerSecond int64 // 0: not known
}
