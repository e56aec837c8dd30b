package schedule

import (
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// LowerBound returns a number of bytes below which the peak of no order can go,
// whatever pairs it takes: the largest of
//
//   - [NodeBound] of each node,
//   - the least possible load of the first step,
//   - the least possible load of the last step.
//
// If a node alone proves the figure, node is the first such node and bytes is
// its NodeBound; else node is -1. The problem must be valid. O(E) beside the
// matchings.
//
// Proof of the ends. The node at step 0 has nothing before it. Beside it are
// live all tensors that no node makes; it makes its outputs, uses its workspace
// and can save at most a matching of the pairs whose tensor has no other
// reader, since no other reader has run. The least of this over the nodes that
// may come first is a bound. The node at the last step has nothing after it.
// Live are its inputs, what it makes and all outputs; all other readers have
// run, so its largest matching counts. The least over the nodes that may come
// last is a bound.
func LowerBound(p *Problem) (bytes int64, node int32) {
	return lowerBound(flatten(p))
}

func lowerBound(f *indexed.Graph) (bytes int64, node int32) {
	b := bounds{f, match.New(len(f.Size))}
	bytes, node = b.ends(), -1
	for v := range f.Nodes {
		if x := b.node(int32(v)); x > bytes || x == bytes && node < 0 {
			bytes, node = x, int32(v)
		}
	}
	return bytes, node
}

// NodeBound returns the bytes that are live while node v runs, whatever the
// order: the tensors that it reads, the tensors that it makes and its
// workspace, less the largest matching of its in-place pairs as if every tensor
// were free. Resident tensors count nothing. The problem must be valid.
//
// Proof: all of these are live at the step of v by definition; an order can
// save no more than a matching of v's pairs, and those of a step are taken by
// its node alone.
func NodeBound(p *Problem, v int32) int64 {
	b := bounds{flatten(p), match.New(len(p.Tensors))}
	return b.node(v)
}

type bounds struct {
	*indexed.Graph
	match *match.Matcher
}

func (b bounds) node(v int32) int64 {
	return b.sum(b.Reads.Of(v)) + b.trans(v) - b.Saved(b.match.Largest(nil, b.PairsOf(v)))
}

// trans returns what a node adds while it runs: its outputs and its workspace.
func (b bounds) trans(v int32) int64 { return b.sum(b.Makes.Of(v)) + b.Workspace[v] }

func (b bounds) sum(tensors []int32) (size int64) {
	for _, t := range tensors {
		size += b.Size[t]
	}
	return size
}

// ends returns the larger of the least loads of the first and the last step.
func (b bounds) ends() int64 {
	inputs, idle := b.InputBytes()
	inputs += idle
	if b.Nodes == 0 {
		return inputs
	}
	var outputs int64
	for t := range b.Size {
		if b.Output[t] {
			outputs += b.Size[t]
		}
	}
	first, last := int64(-1), int64(-1)
	for i := range b.Nodes {
		v := int32(i)
		if b.mayBeFirst(v) {
			first = least(first, inputs+b.trans(v)-b.savedFirst(v))
		}
		if isSink(b.Graph, v) {
			last = least(last, outputs+b.node(v)-b.outputsAt(v))
		}
	}
	return max(first, last)
}

// least returns the smaller of two figures, the first of which may be -1: none.
func least(a, b int64) int64 {
	if a < 0 {
		return b
	}
	return min(a, b)
}

func (b bounds) mayBeFirst(v int32) bool {
	for _, t := range b.Reads.Of(v) {
		if b.Producer[t] >= 0 {
			return false
		}
	}
	return true
}

// savedFirst returns the most that a node can save when no other has run.
func (b bounds) savedFirst(v int32) int64 {
	var own []Pair
	for _, pair := range b.PairsOf(v) {
		if len(b.Readers.Of(pair.Over)) == 1 {
			own = append(own, pair)
		}
	}
	return b.Saved(b.match.Largest(nil, own))
}

// outputsAt returns the bytes of the outputs that a node reads or makes.
func (b bounds) outputsAt(v int32) (size int64) {
	for _, list := range [2][]int32{b.Reads.Of(v), b.Makes.Of(v)} {
		for _, t := range list {
			if b.Output[t] {
				size += b.Size[t]
			}
		}
	}
	return size
}
