package indexed

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// flat is a valid problem in dense slices: what the algorithms walk over.
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

// pairsOf returns the pairs of a node, by Result, then by Over.
func (f *Graph) PairsOf(v int32) []match.Pair { return f.Pairs[f.PairStart[v]:f.PairStart[v+1]] }

// kept reports whether a tensor outlives the step that makes it.
func (f *Graph) Kept(t int32) bool {
	return f.Output[t] || f.Readers.Start[t] < f.Readers.Start[t+1]
}

// waits returns for each node how many of the tensors that it reads are still
// to be made, before any node has run.
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

// unread returns for each tensor how many readers it has: those that are still
// to run, before any node has run.
func (f *Graph) Unread() []int32 {
	n := make([]int32, len(f.Size))
	for t := range n {
		n[t] = f.Readers.Start[t+1] - f.Readers.Start[t]
	}
	return n
}

// run tells a node's readers that it has run, and calls ready for each that
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

// precedence returns the direct predecessors of each node, each once.
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

// inputs returns the bytes that no node makes: those that are live before the
// first step and after it, and those that nobody reads, live at step 0 alone.
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
