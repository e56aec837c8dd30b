// Package core decides whether a plan is right, for a graph of which it knows nothing but
// sizes, precedence and places. It is what an auditor of package verify has to trust first:
// the provers there turn a plan with repetitions, transfers, slices or parts of buffers into a
// [Problem] without any, and what they assume is written beside each. The core imports no
// other package of this module.
//
// # What must be true of a problem
//
//   - Node n runs at step n. Node.After lists the makers of all that it reads, and no maker
//     stands behind a reader.
//   - Storage.Maker writes all bytes of the storage, and Storage.Readers lists every node that
//     reads any of them. Those that nobody makes are there before the first step.
//   - Node.Over has a pair only if the node gives the right result when both storages are the
//     same bytes, and their sizes are equal.
//   - Node.Reads and Node.Writes are the storages of what it reads and makes; Work is what
//     it needs besides.
//
// [Problem.Check] holds a problem to that as far as it can be seen: order, sizes, readers that
// read, makers that make, pairs of what a node makes over what it reads. What is left to
// believe is what operators mean.
//
// # What the core decides
//
// Lemma 1 (places). Let each storage that counts be in one [Buffer], let [Problem.Hold] find
// no fault in any, and let [Overlap] report nothing, of the buffers of a pool with the lifetimes
// that Hold has set. Then no node reads bytes of which another has written over any since
// their maker ran, and outputs hold theirs at the end.
//
// Proof. While a storage is live, its buffer is, and no other buffer of the pool has bytes of
// it then. In the buffer, the storage behind it is written by a node that may write there, and
// that is the last reader: all others ran before.
//
// Lemma 2 (loads). [Problem.Loads] is, at each step, the sum of the buffers that are live. So
// no pool is smaller than its largest load. [Problem.Simulate] is the same for any order, if
// each node writes over as many operands as it can.
//
// Lemma 3 (bounds). What [Bounds.AtNode] answers is a load that the node has in every order;
// [Bounds.First] and [Bounds.LastOf] answer for the node of a set that runs first, or last.
// So each is at most the peak of every order. Exactly: every topological order gives, at each
// node, a set of nodes that have run and contains all predecessors of its members, and the
// answer is the least load over all such sets.
//
// Proof. The load is that of a cut in a network whose arcs are the storages (network.go), so
// the least is a minimum cut; reduce.go removes vertices without changing its capacity, and the
// maximum flow through what is left is the capacity (flow.go, with gonum for the rest).
//
//	problem.go        Problem, its nodes and storages; lifetimes
//	check.go          Check: whether a problem contradicts itself
//	buffers.go        Hold: what follows what in one buffer
//	overlap.go        buffers that share bytes at a step
//	loads.go          loads of the planned order, and of any other
//	pairs.go          results over operands, and what they save
//	matching.go       the choices among them that a bound tries
//	bound.go          Bounds: of one node and of sets of nodes
//	bound_update.go   what may lie in the buffers of parameters and states
//	network.go        the flow networks; reduce.go shrinks them, flow.go solves them
package core
