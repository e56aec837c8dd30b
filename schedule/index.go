package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Pair is an in-place pair: Node writes tensor Result over tensor Over, so the two
// count once at its step and share one buffer.
type Pair = match.Pair

// index returns the indexed form of a problem: see [indexed.Graph]. The indices of the
// problem must be in range; it may be cyclic. O(E), plus the sorting of consumers that
// are not listed in ascending order.
func index(p *Problem) *indexed.Graph {
	f := &indexed.Graph{
		Nodes:     len(p.Nodes),
		Workspace: make([]int64, len(p.Nodes)),
		Size:      make([]int64, len(p.Tensors)),
		Producer:  make([]int32, len(p.Tensors)),
		Output:    make([]bool, len(p.Tensors)),
	}
	for v := range p.Nodes {
		f.Workspace[v] = p.Nodes[v].Workspace
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		f.Producer[i], f.Output[i] = t.Producer, t.Output
		if !t.Resident {
			f.Size[i] = t.Bytes
		}
	}
	f.Readers = readersOf(p)
	f.Reads = f.Readers.Inverse(f.Nodes)
	f.Makes = indexed.MadeBy(f.Producer, f.Nodes)
	findPairs(f, p)
	return f
}

// readersOf returns the consumers of each tensor, ascending, each once, without its
// producer.
func readersOf(p *Problem) indexed.Lists {
	size := 0
	for i := range p.Tensors {
		size += len(p.Tensors[i].Consumers)
	}
	l := indexed.Lists{Start: make([]int32, 1, len(p.Tensors)+1), Items: make([]int32, 0, size)}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		from := len(l.Items)
		for _, v := range t.Consumers {
			if v != t.Producer {
				l.Items = append(l.Items, v)
			}
		}
		if readers := l.Items[from:]; len(readers) > 1 {
			slices.Sort(readers)
			l.Items = l.Items[:from+len(slices.Compact(readers))]
		}
		l.Start = append(l.Start, int32(len(l.Items)))
	}
	return l
}

// findPairs sets the in-place pairs that can count in some order, by node, then by
// Result, then by Over.
func findPairs(f *indexed.Graph, p *Problem) {
	f.PairStart = make([]int32, f.Nodes+1)
	var found []Pair
	for o := range p.Tensors {
		v := f.Producer[o]
		if len(p.Tensors[o].Reuses) == 0 || v < 0 || f.Size[o] == 0 {
			continue
		}
		over := slices.Clone(p.Tensors[o].Reuses)
		slices.Sort(over)
		for _, t := range slices.Compact(over) {
			if _, reads := slices.BinarySearch(f.Readers.Of(t), v); reads && !f.Output[t] && f.Size[t] == f.Size[o] {
				found = append(found, Pair{Node: v, Result: int32(o), Over: t})
				f.PairStart[v+1]++
			}
		}
	}
	for v := range f.Nodes {
		f.PairStart[v+1] += f.PairStart[v]
	}
	f.Pairs = make([]Pair, len(found))
	next := slices.Clone(f.PairStart)
	for _, pair := range found {
		f.Pairs[next[pair.Node]] = pair
		next[pair.Node]++
	}
}

// Pairs returns the in-place pairs that can count in some order of a valid
// problem, by node, then by Result, then by Over.
func (p *Problem) Pairs() []Pair { return index(p).Pairs }
