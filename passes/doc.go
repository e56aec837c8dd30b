// Package passes turns a model into a planned model. [Optimize] takes a
// [graph.Model] and [Options]; it changes the model's order and metadata, and
// returns a [Result] with the model, its plan and the time of each pass.
// [Compare] shows in one table what every strategy would find instead, [Explain]
// says why a plan has the peak that it has, and [Inspect] describes a model.
//
// The work is a list of passes ([Default]), run in this order:
//
//	adapt     adds low-rank adapters to a model that is to be trained, if asked
//	          (package autodiff/lora)
//	attention replaces attention that is spelled out by one operator, if asked
//	precision puts the graph into 16 bits, if asked
//	train     makes a training graph of the model, if asked (package autodiff)
//	inline    replaces calls of local functions by their bodies, if asked
//	kv        gives growing caches of keys and values a fixed capacity, if asked
//	infer     gives every tensor a type and a size (package ops)
//	fold      computes once what depends on constants alone
//	slice     runs regions of the graph in slices, for a peak below that of any
//	          order, if asked
//	loss      runs the loss of a training step in slices of its rows, where that
//	          makes the peak smaller
//	share     merges tensors that are views of each other into one storage
//	bodies    plans the bodies of control flow and the local functions; their
//	          arenas are the workspace of their nodes
//	range     chooses one order and one stacking for ranges of dimensions, if asked
//	          (package alloc/stacking)
//	order     makes a bare problem of the storages and puts the nodes into its
//	          best order (package schedule)
//	limit     recomputes or swaps tensors if the peak exceeds a limit, if asked
//	          (package schedule/budget)
//	recast    runs casts of what stays again where that makes the peak smaller,
//	          unless a limit is asked for
//	place     merges storages that overwrite each other into one buffer, divides the
//	          buffers among pools, if asked (package alloc/tiers), and assigns
//	          offsets (package alloc)
//	alias     lays operands and results of Concat, Split, Slice and Gather into
//	          one another, where that makes the plan better
//	annotate  assembles the plan and writes the offsets into the nodes
//
// Behind the last one, package plan/verify proves the plan against the graph that it
// was made from, unless an option says otherwise.
//
// share, bodies, order and place call the planner (internal/planner), which is a function of a
// graph, what its plan may do, and how much work its searches may do. The searches of the other
// passes call it for each graph that they try.
//
// A [Pass] reads and extends the [State] that the earlier passes left, and prints
// nothing. pipeline.go holds the list with the reason for each pair's order.
// Callers may insert passes of their own: Options.Passes. excludes.go is the table of
// options that exclude each other, or need another; internal/limits/means.go is that of the ways to need less
// memory than the best order, which the searches for limits, slices and pools read.
package passes
