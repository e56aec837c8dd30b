// Package lower makes tasks of a planned graph. A builder lays out the tensors of the main graph,
// and of each body and local function, at their planned places: a [Frame], with one [Step] for each
// node. Then the rows of [Lowering] run, in their order. Each gives the work of several nodes to one
// kernel, holds a tensor in another layout, does work before the first run, or prepares kernels.
//
// Nodes whose work one kernel does are a task: the nodes that it covers, the tensors that it reads
// and writes. Between two rows a check may assert that each node is in one task, and that what a
// task reads is there when it runs.
//
// The package knows what runs and where, on the CPU and on a GPU, and runs nothing: package exec
// does, which also makes the kernels of nodes with bodies ([Flow]).
package lower
