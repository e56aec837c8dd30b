package verify

// prover proves one claim of a plan: it reduces the plan to what package core decides, or
// finds a violation. [Plan] runs them in the order of the table. The page for auditors,
// docs/auditor.md, is written from it.
type prover struct {
	name    string
	fields  []string // of the plan, for which it answers
	files   []string // patterns: here, or below internal; each file has one prover
	assumes string   // what it trusts besides the core
	reduces string   // what it leaves to the core, or compares
	within  string   // the prover that calls it; "": run is called
	run     func(*verifier) (goOn bool)
}

// provers is the table of all. Each needs what those before it have found.
var provers = []prover{
	{
		name: "traversal", fields: []string{"traversal"}, files: []string{"traversal.go"}, run: (*verifier).inRunOrder,
		assumes: "ONNX Runtime's default order is the depth-first one that is written there once more",
		reduces: "the nodes in the order in which they run",
	},
	{
		name: "types", fields: []string{"dims", "values"}, files: []string{"types.go"}, run: (*verifier).types,
		assumes: "`ops`: the types that operators give their outputs, for the lengths of `dims`",
		reduces: "tensors with sizes, and nodes with the views and the in-place results that operators allow",
	},
	{
		name: "runtime", fields: []string{"sharing.runtime"}, files: []string{"runtime.go"}, within: "types",
		assumes: "`ops`: the rows of what ONNX Runtime shares; its rules are written here once more",
		reduces: "the views and the in-place results that the runtime takes, too",
	},
	{
		name: "alignment", fields: []string{"alignment"}, files: []string{"alignment.go"}, run: (*verifier).alignment,
		assumes: "nothing",
		reduces: "sizes that are rounded up",
	},
	{
		name: "updates", fields: []string{"mode", "buffers.kind"}, files: []string{"updates.go"}, run: (*verifier).mode,
		assumes: "the file's metadata: which output is the next value of which parameter, state or cache",
		reduces: "storages that stay: each value in such a buffer is written by the last reader of the one before",
	},
	{
		name: "ranges", fields: []string{"ranges", "subgraphs.ranges", "dims.low", "dims.step", "dims.values", "dims.follows"}, files: []string{"ranges.go", "ranges_dims.go", "ranges_slices.go"}, run: (*verifier).points,
		assumes: "`ops`: the types at each point; with bounded lengths, that no tensor is larger at a point than its bound",
		reduces: "at each point: buffers stacked by their own sizes, bounds of the core, and the sharing that all points have",
	},
	{
		name: "file", fields: []string{"format", "version", "model", "source"}, run: (*verifier).file, files: []string{"identity.go", "internal/lossless/*.go"},
		assumes: "SHA-256; `plan/verify/internal/lossless`: which bytes of a file a plan may change",
		reduces: "a plan that is this file's",
	},
	{
		name: "storages", fields: []string{"sharing.views", "sharing.inplace"}, files: []string{"storages.go", "held.go"}, run: (*verifier).storages,
		assumes: "`ops`: which outputs are views of an input, and over which inputs a node may write",
		reduces: "`core.Problem`: nodes in a topological order, storages, pairs",
	},
	{
		name: "bodies", fields: []string{"subgraphs", "workspaces"}, files: []string{"subgraphs.go"}, run: (*verifier).inner,
		assumes: "a node runs one of its bodies at a time; recorded workspaces are claimed",
		reduces: "one problem for each body; its arena is the work of its node",
	},
	{
		name: "aliases", fields: []string{"sharing.aliases", "spans"}, files: []string{"aliases.go", "relaxed.go"}, within: "buffers",
		assumes: "`ops`: which bytes of an output of Concat, Split, Slice and Gather are which bytes of an input",
		reduces: "parts: storages, each with the readers of all that lies over it; for bounds, every byte that may be shared is",
	},
	{
		name: "buffers", fields: []string{"buffers", "dynamic"}, files: []string{"buffers.go", "overlap.go"}, run: (*verifier).buffers,
		assumes: "nothing",
		reduces: "`core.Buffer` and `core.Extent`: `Hold` and `Overlap` decide",
	},
	{
		name: "steps", fields: []string{"steps"}, files: []string{"steps.go"}, run: (*verifier).steps,
		assumes: "nothing",
		reduces: "`Problem.Loads`",
	},
	{
		name: "swaps", fields: []string{"steps.cost_ns"}, files: []string{"swaps.go"}, run: (*verifier).checkSwaps,
		assumes: "costs of steps and the rate of the link, which are claimed",
		reduces: "copies on the host, live as long as a transfer may be under way, outside of the loads",
	},
	{
		name: "repetitions", fields: []string{"steps.again"}, files: []string{"repetitions.go", "internal/same/*.go"}, run: (*verifier).repeated,
		assumes: "`ops`: which operators give the same result twice, and on which inputs an output depends",
		reduces: "each repetition has the operator, the attributes and the values of its first run; so the graph without it computes the same",
	},
	{
		name: "casts", fields: []string{"summary.recast"}, files: []string{"casts.go"}, within: "certificates",
		assumes: "`ops`: which operators convert elements to another type",
		reduces: "casts take no bytes, their readers take them while they run: then the bound holds whichever casts run again",
	},
	{
		name: "program order", fields: []string{"program_order", "keeps_random_order"}, files: []string{"program.go"}, run: (*verifier).programOrder,
		assumes: "nothing; without the source, that it is the file's order is claimed",
		reduces: "`Problem.Simulate`, of the graph without repetitions and transfers",
	},
	{
		name: "source", files: []string{"internal/unchanged/*.go"}, run: (*verifier).sameNodes,
		assumes: "the source; with slices, their prover compares all nodes; nobody compares a decoder with caches of a fixed capacity, or inlined functions",
		reduces: "every node without repetitions and transfers is a node of the source, with its operator, attributes and operands; none is missing",
	},
	{
		name: "constants", files: []string{"internal/named/*.go", "internal/numbers/*.go"}, within: "source",
		assumes: "the source, and the names of constants that it lacks",
		reduces: "constants that the plan added have the elements of which their names speak",
	},
	{
		name: "training", files: []string{"internal/training/*.go"}, within: "source",
		assumes: "the source, and the file's metadata: loss, optimizer, parameters, gradients; that gradients are derivatives, and what operators without a gradient become, is claimed",
		reduces: "nodes that the loss needs are the source's; the loss is the one named; updates compute what the formulas of the optimizer give; gradients read no state, rate or result of an update",
	},
	{
		name: "certificates", fields: []string{"certificates", "summary.lower_bound_bytes", "summary.schedule_optimal"}, files: []string{"certificates.go"}, run: (*verifier).certificates,
		assumes: "nothing",
		reduces: "`core.Bounds`: minimum cuts, one for each node and each way to write in place",
	},
	{
		name: "proofs", files: []string{"proofs.go", "plain.go"}, within: "certificates",
		assumes: "nothing; it decides nothing",
		reduces: "`internal/proof/model`: the constraints of which a checker of others proves the bound; plain text for a checker that Rocq has verified",
	},
	{
		name: "searches", files: []string{"internal/replay/*.go"}, within: "certificates",
		assumes: "nothing; without `--replay`, certificates of kind search are claimed",
		reduces: "a search of all orders, by another method than the planner's, with the loads of the core",
	},
	{
		name: "pools", fields: []string{"pools", "traffic_prices"}, files: []string{"tiers.go"}, run: (*verifier).pools,
		assumes: "`ops`: which operators read no more of an input than they make",
		reduces: "extents of each pool; what nodes move of each buffer, and the dual of a fractional knapsack",
	},
	{
		name: "limit", fields: []string{"summary.limit_bytes"}, files: []string{"limit.go"}, run: (*verifier).limit,
		assumes: "costs of steps, which are claimed",
		reduces: "the peak or the arena of the core, and sums of costs",
	},
	{
		name: "attention", fields: []string{"attention"}, files: []string{"attention.go"}, run: (*verifier).attention,
		assumes: "that Attention of opset 23 is what its name says; a query that sees no key is claimed",
		reduces: "each listed tensor is made by one; queries, keys and values are elements of the source's in their places, the scale and masks are those of the source's scores",
	},
	{
		name: "precision", fields: []string{"precision"}, files: []string{"precision.go"}, run: (*verifier).precision,
		assumes: "that rounding to 16 bits is what was asked for; the reasons why tensors stay float32 are claimed",
		reduces: "each listed cast is one between float32 and the 16-bit type; the graph without them is what the provers of the source and of training compare",
	},
	{
		name: "folded constants", fields: []string{"folded"}, files: []string{"internal/folding/*.go"}, run: (*verifier).folded,
		assumes: "`internal/reference`: a plain evaluator, which is not the planner's; the source",
		reduces: "initializers with the bits of the source's nodes that they replace",
	},
	{
		name: "slices", fields: []string{"slices"}, files: []string{"internal/regions/*.go", "internal/rowmap/*.go"}, run: (*verifier).regions,
		assumes: "`plan/verify/internal/rowmap`: which rows of its inputs an operator needs for which rows of its outputs; the source",
		reduces: "each node of a slice makes rows that the source's node makes, of the rows that it needs; those of an output are all, each once",
	},
	{
		name: "caches", fields: []string{"kv"}, files: []string{"internal/caches/*.go"}, run: (*verifier).capacity,
		assumes: "that the rewritten decoder computes what the source does is claimed",
		reduces: "caches that stay, each written by one TensorScatter",
	},
	{
		name: "summary", fields: []string{"summary"}, files: []string{"summary.go"}, run: (*verifier).checkSummary,
		assumes: "nothing",
		reduces: "figures of the core",
	},
	{
		name: "annotations", files: []string{"annotations.go"}, run: (*verifier).annotations,
		assumes: "nothing",
		reduces: "the metadata of the file, compared with the plan",
	},
}
