package passes

import (
	"io"
	"time"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Options are the options of planning. The zero value is a sound default.
type Options struct {
	Dims       map[string]int64         // lengths of dimensions, by their name or place (x[0])
	Values     map[string]graph.Literal // values of inputs that are known before the model runs: the plan holds for them
	StrictDims bool                     // refuse a dimension that has no length
	// Ranges are the lengths of other dimensions, in the form LOW..HIGH, LOW..HIGH:STEP or
	// 1,2,4,8: one order and one stacking of the buffers for all combinations of them, each
	// of which is a point. The plan is that of the corner, where all lengths are largest,
	// and has [plan.Ranges]. With Train, the step of every point must be the same graph
	// ([autodiff.TrainRange]). What holds for one length alone is refused beside it
	// ([Exclusions]). A range of one length is one of Dims.
	Ranges      map[string]string
	RangePoints int // the largest number of points; 0 is [DefaultRangePoints]
	// RangeProgress is called, now and then and from any goroutine, with the number of
	// points that are proven so far.
	RangeProgress func(done, points int)

	SpareDims bool   // Dims and Values may name dimensions and inputs that the model does not have
	Strict    bool   // refuse a declared shape that contradicts inference, and an element type that an opset does not permit, instead of a warning
	Align     int64  // alignment of offsets and sizes in bytes, a power of two; 0 is 64
	NoViews   bool   // give every view a buffer of its own
	NoInplace bool   // never write a result over an input
	Runtime   string // name in [ops.Runtimes]: share only what that runtime shares; "": all that package ops knows
	// RuntimeOrder lists the nodes in the file so that the default order of Runtime, which
	// goes through the graph from its end, has a small peak: for programs that cannot ask the
	// runtime for the file's order. The plan is of that order ([plan.Traversal]).
	RuntimeOrder bool

	Schedule  string          // name of an order strategy; "" runs the search for the best order
	Placement string          // name of a placement strategy; "" runs the search for the best placement
	Effort    schedule.Effort // how much work the searches may do
	Goal      schedule.Goal   // which of the orders with the smallest peak to prefer

	// KeepRandomOrder keeps the relative order of nodes that draw random numbers,
	// have an effect, or have an unknown operator.
	KeepRandomOrder bool

	// TimeLimit ends the searches, which then use the best result so far. With a
	// time limit, two runs on one model may give different plans. 0: no limit.
	TimeLimit time.Duration

	// Solver works on what the searches for the order and the placement of the main graph
	// leave open, or confirms the order: see [schedule.Options] and [alloc.Options]. Its
	// result depends on time. nil: none. With TimeLimit it takes at most a quarter of that
	// for the order, and what is left for the placement.
	Solver     ilp.Solver
	SolverTime time.Duration // it may take for each of the two; 0: as long as TimeLimit
	Threads    int           // it may use; 0: one for each core

	// Progress is called when the search for the order of the main graph improves
	// the bound or the peak: see [schedule.Options].
	Progress func(bound, peak int64)

	Fold Fold // what is computed from constants when the model is planned; by default what changes no bit
	// FoldLimit is the largest number of bytes that folding may compute in all; what does not
	// fit stays a node. 0: DefaultFoldLimit.
	FoldLimit int64

	InlineFunctions bool // replace calls of local functions by their bodies first

	Train *autodiff.Options // first make a training graph; its Dims, Values, StrictDims, SpareDims and Strict are taken from these options

	// LoRA gives the model low-rank adapters before Train makes a step, which then trains these
	// alone, and what Train.Trainable matches; running statistics are frozen. nil: none.
	LoRA *lora.Options

	// Attention first replaces attention that the graph spells out as products and a Softmax by the
	// operator Attention of opset 23, which needs no scores in memory. Results differ by rounding. A
	// training step has autodiff.Options.Attention instead.
	Attention bool

	// Precision first puts the graph into 16 bits: autocast, if it is trained. nil: it keeps
	// its types.
	Precision *Precision

	// UpdatesLast runs all updates of a training graph after all other nodes, as
	// a runtime with a separate optimizer does.
	UpdatesLast bool

	// States are states that stay from one run to the next, such as caches of keys and
	// values: INPUT=OUTPUT, a graph input and the graph output that is its next value. The
	// two become one resident buffer, which the run writes over. StatesAuto finds them: an
	// input and an output between which TensorScatter, ScatterElements, ScatterND and
	// GroupQueryAttention alone write, or which a Loop carries. Neither is for training
	// graphs, which keep their parameters by themselves.
	States     []string
	StatesAuto bool

	// KVCapacity rewrites a decoder whose caches of keys and values grow by a Concat into
	// one whose caches have room for that many tokens: they are States, TensorScatter writes
	// them, and a new input says where ([plan.KV]). A decoder of which that cannot be shown to
	// give the same results is refused. 0: the decoder stays as it is.
	KVCapacity int64

	// Aliases says whether nodes that only move bytes may share them with their operands.
	Aliases Aliases

	Limit *Limit // bounds the memory; nodes are recomputed to meet it; nil: no limit
	Host  *Host  // with Limit or Frontier: a host memory to which tensors may be swapped; with Pools: one more pool, without a limit; nil: none
	// Frontier computes the cost of other limits, for Plan.Frontier.
	Frontier bool

	// Pools are several memories in the place of one arena, the fastest first. Each
	// buffer lies in one of them; nil: there is one arena without a capacity.
	Pools []Pool

	// Workspaces are the bytes of scratch that the kernels of nodes took in a run on a
	// device ([plan.Recording]). They become workspaces of the plan. Planning fails if they
	// were recorded with another model, or with other lengths of dimensions.
	Workspaces *plan.Recording

	// Slices says which regions of the graph may run in slices to meet Limit or, without
	// it, to move few bytes in all Pools but the first.
	Slices Slices
	// Compact: calls of local functions have the nodes of slices, so that the file has
	// those of a region once and not once for each slice. The peak may be a little larger.
	Compact bool
	// NoRecompute, with Slices, meets Limit, ExtraPercent or Frontier without running nodes
	// again: by slices alone and, with Host, by swaps, as if Host.NoRecompute were set.
	NoRecompute bool
	// ExtraPercent, without Limit, asks for the smallest peak that takes at most that
	// percentage more time, by recomputation and by what Slices and Host allow; 0: none.
	// With Limit, planning fails with an [*ExtraError] if the plan takes more time.
	// With Pools and Slices, it bounds the extra time of the slices; 0: any.
	ExtraPercent float64

	Costs  map[string]int64 // measured costs of nodes by name, in nanoseconds; the others are estimated
	Device Device           // the device for which costs are estimated; zero: [DefaultDevice]

	// NoVerify hands out the plan unverified, for callers that verify it themselves.
	NoVerify bool

	// Passes are the passes to run; nil: those of [Default]. If the list is not
	// nil, the invariants are checked after each pass, as with Check.
	Passes  []Pass
	Disable []string                  // names of optional passes to leave out
	Trace   func(Pass, time.Duration) // called after each pass

	// Check checks the invariants before and after each pass, and shuffles lists that have no
	// order before it (metadata, attributes of nodes, opset imports, functions), which are put
	// back after it. The result is the same.
	Check bool
	// Printed receives the printed form of the graph ([graph.Print]) after each pass that
	// PrintAfter names. With Check, it also does before the first pass and after each one
	// that changes the graph or what is known of it. nil: nothing is printed.
	Printed    io.Writer
	PrintAfter []string

	Tool string // name and version of the tool, for the plan; "" is "onnxmem"

	// What is given up where the plan with it was not valid.
	noInside bool // regions inside of slices
	noMoves  bool // copies between pools
	noProof  bool // certificates, and the bound with them
}

// DefaultAlign is the alignment of offsets and sizes in bytes.
const DefaultAlign = 64

// maxAlign is the largest value of Options.Align.
const maxAlign = 1 << 20

// OptionError reports an option whose value is wrong for every model.
type OptionError struct{ Err error }

// Error names the option, what was expected and what was found.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *OptionError) Unwrap() error { return e.Err }

// Aliases says whether results of Concat, Split, Slice and Gather along an axis with only
// lengths of 1 before it may lie in the bytes of their operands, and operands in those of
// their result ([plan.Span]). They do so where that makes the plan better. A runtime that
// takes the offsets of such a plan must not run these nodes, or its copies must bear their
// target as their source. With Options.Ranges, they share the same bytes at every point.
// Bodies and local functions have no aliases.
type Aliases int

// The values of Aliases.
const (
	// AliasesAuto permits them unless views are to have buffers of their own (NoViews), or another
	// option excludes them ([Exclusions]). Where the graph may be changed for a smaller peak (Limit,
	// ExtraPercent), they are tried before it is, and not after: that seldom pays.
	AliasesAuto Aliases = iota
	// AliasesOff permits none.
	AliasesOff
	// AliasesOn permits them in changed graphs, too, and refuses the options that exclude them.
	AliasesOn
)

// Fold says what may be computed from constants when the model is planned.
type Fold int

// The values of Fold.
const (
	// FoldExact computes what changes no bit of any result in any runtime.
	FoldExact Fold = iota
	// FoldOff computes nothing.
	FoldOff
	// FoldAny also lets a product read a constant as it lies instead of transposed,
	// which may change the last bit of the product in some runtimes.
	FoldAny
)

// Limit bounds the memory of a plan.
type Limit struct {
	Bytes   int64
	Percent float64 // of the peak without a limit; replaces Bytes if it is greater than 0
	Arena   bool    // the limit holds for the arena, too, and not only for the peak
}

// Pool is one of several memories that hold the buffers outside of resident.
type Pool struct {
	Name           string // letters, digits, "_" and "-"
	Capacity       int64  // in bytes
	BytesPerSecond int64  // of reading and of writing; 0: not known
}

// Slices says which regions of a graph may run in slices.
type Slices int

// The values of Slices.
const (
	// SlicesOff slices nothing.
	SlicesOff Slices = iota
	// SlicesExact slices along axes whose rows do not depend on each other: each
	// element is computed from the same operands in the same order.
	SlicesExact
	// SlicesAny also sums over the axis that is sliced, which may change the last bits
	// of the sum.
	SlicesAny
)

// Host is a memory beside the device's to which tensors can be swapped.
type Host struct {
	Link        int64 // bandwidth in bytes per second, in each direction at the same time
	NoRecompute bool  // recompute no node
}

// Device is the model of a device, from which the costs of nodes are estimated. The
// models differ in what small nodes cost; docs/formats/costs.md has the formulas.
type Device struct {
	FLOPS     float64 // floating-point operations per second
	Bandwidth float64 // memory bandwidth in bytes per second
	Kind      DeviceKind
}

// DeviceKind says how a device spends its time.
type DeviceKind int

// The kinds of devices.
const (
	// Roofline computes and moves bytes at the same time, at full rate.
	Roofline DeviceKind = iota
	// GPU does so, too, but a product that is too small for all processors takes longer.
	GPU
	// CPU is one core that waits for memory, and for each node, plane and narrow product.
	CPU
)
