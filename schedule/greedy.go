package schedule

import (
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Greedy returns the order that runs, at each step, the ready node that raises the live
// bytes least. A ready node that does not raise them runs at once; of several such nodes
// the one that needs the least beside the live bytes runs first. That loses nothing if it
// fits below the peak: in an order within the peak, that node can move to the front, since
// no later state has more live bytes than before. Ties fall to the smaller index.
// O(E + (V + T) log V) beside the matchings; T is the number of tensors.
func Greedy(p *Problem) []int32 {
	g := newGreedy(index(p))
	for {
		v, any := g.next()
		if !any {
			return g.order
		}
		g.run(v)
	}
}

// greedy is the state after some nodes have run.
type greedy struct {
	f      *indexed.Graph
	order  []int32
	ran    []bool
	waits  []int32 // node -> tensors that it reads and that are still to be made
	unread []int32 // tensor -> readers that are still to run
	sum    []int64 // tensor -> the sum of the indices of those; the reader itself when one is left
	delta  []int64 // node -> by how much its run would raise the live bytes

	match       *match.Matcher
	free, taken []Pair // scratch of extra

	// Heaps of ready nodes. A node's keys only ever fall: it is pushed again
	// with the new key, and what is left of it is skipped.
	safe indexed.Heap[ready] // raise nothing; keyed by what they need beside the live bytes
	rest indexed.Heap[ready] // keyed by delta
}

type ready struct {
	key  int64
	node int32
}

func newGreedy(f *indexed.Graph) *greedy {
	less := func(a, b ready) bool {
		return a.key < b.key || a.key == b.key && a.node < b.node
	}
	g := &greedy{
		f:      f,
		order:  make([]int32, 0, f.Nodes),
		ran:    make([]bool, f.Nodes),
		waits:  f.Waits(),
		unread: f.Unread(),
		sum:    make([]int64, len(f.Size)),
		delta:  make([]int64, f.Nodes),
		match:  match.New(len(f.Size)),
		safe:   indexed.Heap[ready]{Less: less},
		rest:   indexed.Heap[ready]{Less: less},
	}
	for t := range f.Size {
		readers := f.Readers.Of(int32(t))
		for _, r := range readers {
			g.sum[t] += int64(r)
		}
		if len(readers) == 1 && !f.Output[t] {
			g.delta[readers[0]] -= f.Size[t]
		}
	}
	for i := range f.Nodes {
		v := int32(i)
		for _, t := range f.Makes.Of(v) {
			if f.Kept(t) {
				g.delta[v] += f.Size[t]
			}
		}
		if g.waits[v] == 0 {
			g.push(v)
		}
	}
	return g
}

func (g *greedy) push(v int32) {
	if g.delta[v] <= 0 {
		g.safe.Push(ready{g.extra(v), v})
	} else {
		g.rest.Push(ready{g.delta[v], v})
	}
}

// extra returns what a node would need beside the live bytes if it ran now.
func (g *greedy) extra(v int32) int64 {
	size := g.f.Workspace[v]
	for _, t := range g.f.Makes.Of(v) {
		size += g.f.Size[t]
	}
	g.free = g.free[:0]
	for _, pair := range g.f.PairsOf(v) {
		if g.unread[pair.Over] == 1 {
			g.free = append(g.free, pair)
		}
	}
	g.taken = g.match.Largest(g.taken[:0], g.free)
	return size - g.f.Saved(g.taken)
}

// next takes the node to run from the heaps. The entry with a node's newest key
// comes up before its older ones, so a node that has not run is up to date.
func (g *greedy) next() (v int32, any bool) {
	for _, h := range [2]*indexed.Heap[ready]{&g.safe, &g.rest} {
		for len(h.Items) > 0 {
			if v := h.Pop().node; !g.ran[v] {
				return v, true
			}
		}
	}
	return 0, false
}

func (g *greedy) run(v int32) {
	g.ran[v] = true
	g.order = append(g.order, v)
	for _, t := range g.f.Reads.Of(v) {
		g.unread[t]--
		g.sum[t] -= int64(v)
		if g.unread[t] == 1 && g.f.Size[t] > 0 && !g.f.Output[t] {
			r := int32(g.sum[t])
			g.delta[r] -= g.f.Size[t]
			if g.waits[r] == 0 {
				g.push(r)
			}
		}
	}
	g.f.Run(v, g.waits, g.push)
}

// SizePriority runs, among the ready nodes, the one of the smallest static estimate of what
// it adds. That is the bytes of its outputs, less, for each tensor that it reads, the bytes
// divided by the number of its readers, rounded down. That is ScheduleGreedy of Chainer's
// compiler (compiler/scheduler.cc, EstimateMemoryIncrease) without what it adds for Relu and
// without its second pass, DelaySimpleNodes. The estimate does not depend on the state:
// unlike [Greedy], the last of many readers looks no better than the first. Workspace and
// in-place pairs count nothing. Ties fall to the smaller index. O(E + V log V).
func SizePriority(p *Problem) []int32 {
	f := index(p)
	adds := make([]int64, f.Nodes)
	for i := range adds {
		v := int32(i)
		for _, t := range f.Makes.Of(v) {
			adds[v] += f.Size[t]
		}
		for _, t := range f.Reads.Of(v) {
			adds[v] -= f.Size[t] / int64(len(f.Readers.Of(t)))
		}
	}
	return kahn(f, func(a, b int32) bool {
		return adds[a] < adds[b] || adds[a] == adds[b] && a < b
	})
}
