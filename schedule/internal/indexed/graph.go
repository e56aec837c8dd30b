// Package indexed holds a scheduling problem in dense slices: nodes and tensors are
// indices of type int32. The other packages of the search work on it.
//
//	graph.go    Graph: every tensor of the problem, at its index in the problem
//	problem.go  Problem: only the tensors that can change the load
//	savings.go  what in-place pairs can save while a node runs
//	lists.go    Lists, many short lists in one slice; heaps and buffers
package indexed

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// Graph is a valid problem in dense slices, with every tensor at its index in the problem.
// Resident tensors have size 0 here, so that only their precedence is left.
type Graph struct {
	Nodes     int
	Workspace []int64 // by node
	Size      []int64 // by tensor, as are the next two
	Producer  []int32
	Output    []bool
	Readers   Lists // tensor -> the nodes that read it, ascending, without its producer
	Reads     Lists // node -> the tensors that it reads, ascending
	Makes     Lists // node -> the tensors that it makes, ascending
	Pairs     []match.Pair
	PairStart []int32 // node -> its first pair; its pairs ascend by Result, then by Over
}

// PairsOf returns the pairs of a node, by Result, then by Over.
func (f *Graph) PairsOf(v int32) []match.Pair { return f.Pairs[f.PairStart[v]:f.PairStart[v+1]] }

// Kept reports whether a tensor outlives the step that makes it.
func (f *Graph) Kept(t int32) bool {
	return f.Output[t] || f.Readers.Start[t] < f.Readers.Start[t+1]
}

// Waits returns for each node how many of the tensors that it reads some node has to make.
func (f *Graph) Waits() []int32 {
	n := make([]int32, f.Nodes)
	for v := range n {
		for _, t := range f.Reads.Of(int32(v)) {
			if f.Producer[t] >= 0 {
				n[v]++
			}
		}
	}
	return n
}

// Unread returns for each tensor how many readers it has.
func (f *Graph) Unread() []int32 {
	n := make([]int32, len(f.Size))
	for t := range n {
		n[t] = f.Readers.Start[t+1] - f.Readers.Start[t]
	}
	return n
}

// Run counts down what the readers of a node wait for, and calls ready for each reader that
// waits for nothing more.
func (f *Graph) Run(v int32, waits []int32, ready func(int32)) {
	for _, t := range f.Makes.Of(v) {
		for _, r := range f.Readers.Of(t) {
			if waits[r]--; waits[r] == 0 {
				ready(r)
			}
		}
	}
}

// Precedence returns the direct predecessors of each node, each once.
func (f *Graph) Precedence() Lists {
	var l Lists
	last := make([]int32, f.Nodes) // 1 + the node that last listed it
	for i := range f.Nodes {
		v := int32(i)
		from := len(l.Items)
		for _, t := range f.Reads.Of(v) {
			if m := f.Producer[t]; m >= 0 && last[m] != v+1 {
				last[m] = v + 1
				l.Items = append(l.Items, m)
			}
		}
		l.Add()
		slices.Sort(l.Items[from:])
	}
	return l.Finish()
}

// InputBytes returns the bytes of the tensors that no node makes: live before the first
// step and after it, or idle, if nobody reads them: live at step 0 alone.
func (f *Graph) InputBytes() (live, idle int64) {
	for t, v := range f.Producer {
		switch {
		case v >= 0:
		case f.Kept(int32(t)):
			live += f.Size[t]
		default:
			idle += f.Size[t]
		}
	}
	return live, idle
}

// Saved returns the bytes that pairs save.
func (f *Graph) Saved(pairs []match.Pair) (size int64) {
	for _, pair := range pairs {
		size += f.Size[pair.Over]
	}
	return size
}

// IsSink reports whether no node reads what v makes.
func (f *Graph) IsSink(v int32) bool {
	for _, t := range f.Makes.Of(v) {
		if len(f.Readers.Of(t)) > 0 {
			return false
		}
	}
	return true
}
