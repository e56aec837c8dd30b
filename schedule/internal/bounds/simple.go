package bounds

import (
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Simple returns the largest load that no order escapes, without any cut: of each
// node alone, of the first step and of the last. If a node alone proves the figure,
// node is the first such node; else it is -1. O(E) beside the matchings.
func Simple(f *indexed.Graph) (bytes int64, node int32) {
	b := simple{f, match.New(len(f.Size))}
	bytes, node = b.ends(), -1
	for v := range f.Nodes {
		if x := b.node(int32(v)); x > bytes || x == bytes && node < 0 {
			bytes, node = x, int32(v)
		}
	}
	return bytes, node
}

// Alone returns what is live while v runs, whatever the order: what it reads, what it
// makes and its workspace, less its largest matching.
func Alone(f *indexed.Graph, v int32) int64 {
	return simple{f, match.New(len(f.Size))}.node(v)
}

type simple struct {
	g     *indexed.Graph
	match *match.Matcher
}

func (b simple) node(v int32) int64 {
	return b.sum(b.g.Reads.Of(v)) + b.trans(v) - b.g.Saved(b.match.Largest(nil, b.g.PairsOf(v)))
}

// trans returns what a node adds while it runs: its outputs and its workspace.
func (b simple) trans(v int32) int64 { return b.sum(b.g.Makes.Of(v)) + b.g.Workspace[v] }

func (b simple) sum(tensors []int32) (size int64) {
	for _, t := range tensors {
		size += b.g.Size[t]
	}
	return size
}

// ends returns the larger of the least loads of the first and the last step.
func (b simple) ends() int64 {
	inputs, idle := b.g.InputBytes()
	inputs += idle
	if b.g.Nodes == 0 {
		return inputs
	}
	var outputs int64
	for t := range b.g.Size {
		if b.g.Output[t] {
			outputs += b.g.Size[t]
		}
	}
	first, last := int64(-1), int64(-1)
	for i := range b.g.Nodes {
		v := int32(i)
		if b.mayBeFirst(v) {
			first = least(first, inputs+b.trans(v)-b.savedFirst(v))
		}
		if b.g.IsSink(v) {
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

func (b simple) mayBeFirst(v int32) bool {
	for _, t := range b.g.Reads.Of(v) {
		if b.g.Producer[t] >= 0 {
			return false
		}
	}
	return true
}

// savedFirst returns the most that a node can save when no other has run.
func (b simple) savedFirst(v int32) int64 {
	var own []match.Pair
	for _, pair := range b.g.PairsOf(v) {
		if len(b.g.Readers.Of(pair.Over)) == 1 {
			own = append(own, pair)
		}
	}
	return b.g.Saved(b.match.Largest(nil, own))
}

// outputsAt returns the bytes of the outputs that a node reads or makes.
func (b simple) outputsAt(v int32) (size int64) {
	for _, list := range [2][]int32{b.g.Reads.Of(v), b.g.Makes.Of(v)} {
		for _, t := range list {
			if b.g.Output[t] {
				size += b.g.Size[t]
			}
		}
	}
	return size
}
