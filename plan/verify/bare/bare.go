// Package bare checks answers to bare problems: places of buffers, orders of nodes, and steps
// in which nodes run again. It trusts no figure, shares no code with schedule and alloc, and
// leaves what decides to the core of package verify.
//
//	place.go   [Places] of buffers with given lifetimes
//	order.go   an order of nodes, and the certificates of its bound
//	ranges.go  tensors that are ranges of others
//	steps.go   steps with repeated nodes and transfers, unrolled into a problem without any
package bare

// Verdict is what was recomputed of a valid answer.
type Verdict struct {
	Bytes int64 // the arena, or the peak
	Bound int64 // bytes: proven here, so no answer takes less
}

// Proven reports whether no answer is better.
func (v Verdict) Proven() bool { return v.Bytes == v.Bound }

// Problem is nodes, and the storages that they read and make.
type Problem struct {
	Nodes   []Node
	Tensors []Tensor
	Ranges  []Range // each of another tensor
}

// Node is an invocation of an operator.
type Node struct {
	Workspace int64   // bytes that it needs while it runs
	Once      bool    // it must not run again
	Writes    []int32 // tensors that it overwrites in place: each makes the next version of one
}

// Tensor is a storage.
type Tensor struct {
	Bytes     int64
	Producer  int32   // the node that makes it; -1: it is there before the first step
	Consumers []int32 // nodes that read it, in any order; the producer and repetitions do not count
	Resident  bool    // only its precedence counts
	Output    bool    // it is held to the last step
	Over      []int32 // tensors that the producer may overwrite with it, if it reads them last
}
