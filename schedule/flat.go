package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// flat is a valid problem in dense slices: what the algorithms walk over.
// Resident tensors have size 0 here, so that only their precedence is left.
type flat struct {
	nodes     int
	workspace []int64 // by node
	size      []int64 // by tensor, as are the next two
	producer  []int32
	output    []bool
	readers   lists // tensor -> the nodes that read it, ascending, without its producer
	read      lists // node -> the tensors that it reads, ascending
	made      lists // node -> the tensors that it makes, ascending
	pairs     []Pair
	pairStart []int32 // node -> its first pair; its pairs ascend by Result, then by Over
}

// Pair is an in-place pair: Node writes tensor Result over tensor Over, and the
// two count once at its step.
type Pair = match.Pair

// lists holds many short lists in one slice.
type lists struct {
	start []int32
	items []int32
}

func (l lists) of(i int32) []int32 { return l.items[l.start[i]:l.start[i+1]] }

// flatten takes a problem whose indices are in range; it may be cyclic.
// O(E), but for the sorting of readers that are not listed in ascending order.
func flatten(p *Problem) *flat {
	f := &flat{
		nodes:     len(p.Nodes),
		workspace: make([]int64, len(p.Nodes)),
		size:      make([]int64, len(p.Tensors)),
		producer:  make([]int32, len(p.Tensors)),
		output:    make([]bool, len(p.Tensors)),
	}
	for v := range p.Nodes {
		f.workspace[v] = p.Nodes[v].Workspace
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		f.producer[i], f.output[i] = t.Producer, t.Output
		if !t.Resident {
			f.size[i] = t.Bytes
		}
	}
	f.readers = readersOf(p)
	f.read = f.readers.turned(f.nodes)
	f.made = madeBy(f.producer, f.nodes)
	f.findPairs(p)
	return f
}

func readersOf(p *Problem) lists {
	l := lists{start: make([]int32, 1, len(p.Tensors)+1)}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		from := len(l.items)
		for _, v := range t.Consumers {
			if v != t.Producer {
				l.items = append(l.items, v)
			}
		}
		if mine := l.items[from:]; len(mine) > 1 {
			slices.Sort(mine)
			l.items = l.items[:from+len(slices.Compact(mine))]
		}
		l.start = append(l.start, int32(len(l.items)))
	}
	return l
}

// turned returns for each of n items the lists that hold it, ascending.
func (l lists) turned(n int) lists {
	r := lists{make([]int32, n+1), make([]int32, len(l.items))}
	for _, v := range l.items {
		r.start[v+1]++
	}
	for v := range n {
		r.start[v+1] += r.start[v]
	}
	next := slices.Clone(r.start)
	for i := range len(l.start) - 1 {
		for _, v := range l.of(int32(i)) {
			r.items[next[v]] = int32(i)
			next[v]++
		}
	}
	return r
}

func madeBy(producer []int32, nodes int) lists {
	l := lists{start: make([]int32, 1, len(producer)+1)}
	for _, v := range producer {
		if v >= 0 {
			l.items = append(l.items, v)
		}
		l.start = append(l.start, int32(len(l.items)))
	}
	return l.turned(nodes)
}

// findPairs keeps the pairs that can count in some order.
func (f *flat) findPairs(p *Problem) {
	f.pairStart = make([]int32, f.nodes+1)
	var found []Pair
	for o := range p.Tensors {
		v := f.producer[o]
		if len(p.Tensors[o].Reuses) == 0 || v < 0 || f.size[o] == 0 {
			continue
		}
		over := slices.Clone(p.Tensors[o].Reuses)
		slices.Sort(over)
		for _, t := range slices.Compact(over) {
			if _, reads := slices.BinarySearch(f.readers.of(t), v); reads && !f.output[t] && f.size[t] == f.size[o] {
				found = append(found, Pair{Node: v, Result: int32(o), Over: t})
				f.pairStart[v+1]++
			}
		}
	}
	for v := range f.nodes {
		f.pairStart[v+1] += f.pairStart[v]
	}
	f.pairs = make([]Pair, len(found))
	next := slices.Clone(f.pairStart)
	for _, pair := range found {
		f.pairs[next[pair.Node]] = pair
		next[pair.Node]++
	}
}

// Pairs returns the in-place pairs that can count in some order of a valid
// problem, by node, then by Result, then by Over.
func (p *Problem) Pairs() []Pair { return flatten(p).pairs }

// pairsOf returns the pairs of a node, by Result, then by Over.
func (f *flat) pairsOf(v int32) []Pair { return f.pairs[f.pairStart[v]:f.pairStart[v+1]] }

// kept reports whether a tensor outlives the step that makes it.
func (f *flat) kept(t int32) bool {
	return f.output[t] || f.readers.start[t] < f.readers.start[t+1]
}

// waits returns for each node how many of the tensors that it reads are still
// to be made, before any node has run.
func (f *flat) waits() []int32 {
	n := make([]int32, f.nodes)
	for v := range n {
		for _, t := range f.read.of(int32(v)) {
			if f.producer[t] >= 0 {
				n[v]++
			}
		}
	}
	return n
}

// unread returns for each tensor how many readers it has: those that are still
// to run, before any node has run.
func (f *flat) unread() []int32 {
	n := make([]int32, len(f.size))
	for t := range n {
		n[t] = f.readers.start[t+1] - f.readers.start[t]
	}
	return n
}

// run tells a node's readers that it has run, and calls ready for each that
// waits for nothing more.
func (f *flat) run(v int32, waits []int32, ready func(int32)) {
	for _, t := range f.made.of(v) {
		for _, r := range f.readers.of(t) {
			if waits[r]--; waits[r] == 0 {
				ready(r)
			}
		}
	}
}
