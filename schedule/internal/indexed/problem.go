package indexed

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/maxflow"
)

// Infinite exceeds every load: the capacity of an edge that no cut crosses. See TooLarge.
const Infinite = maxflow.Infinite

// Problem is the indexed problem that bounds and searches work on. Only the tensors that
// can change the load are left; all others are precedence, or base. It also stands for a
// part of a problem, and for a problem whose nodes are runs of nodes of another one. With
// live(S) the bytes to hold when the nodes of S have run, the load of v from there is
//
//	live(S) + Transient[v] - saved(v, S)
type Problem struct {
	Nodes        int
	Base         int64   // bytes live at every step
	Idle         int64   // bytes of inputs that nobody reads, live at the first step alone
	Transient    []int64 // node -> its outputs, read or not, and its workspace
	Preds, Succs Lists   // direct precedence, each neighbour once

	Size    []int64 // tensor -> bytes, more than 0; as are the next three
	Maker   []int32 // -1: live from the start
	Output  []bool
	Readers Lists
	Reads   Lists // node -> tensors
	Makes   Lists // node -> tensors that are read or outputs

	SavingsAt   []int32 // node -> 1 + its place in Savings, or 0; nil if no node saves
	Savings     []Savings
	AlwaysGiven int32          // numbers below 0 that pairs use for tensors made within their node
	Matcher     *match.Matcher // for nodes with more pairs than choices can list
}

// AddTensor adds a tensor and returns its index. FinishTensors must follow the last one.
func (g *Problem) AddTensor(size int64, maker int32, output bool, readers []int32) int32 {
	g.Size = append(g.Size, size)
	g.Maker = append(g.Maker, maker)
	g.Output = append(g.Output, output)
	g.Readers.Add(readers...)
	return int32(len(g.Size) - 1)
}

// FinishTensors lists the tensors by the nodes that read and make them.
func (g *Problem) FinishTensors() {
	g.Reads = g.Readers.Finish().Inverse(g.Nodes)
	g.Makes = MadeBy(g.Maker, g.Nodes)
	g.Readers = g.Readers.Finish()
}

// Listing returns the nodes by index, or if that is no topological order, the
// one that always runs the ready node of the smallest index.
func (g *Problem) Listing() []int32 {
	order := Ascending(g.Nodes)
	topological := true
	for _, v := range order {
		preds := g.Preds.Of(v)
		topological = topological && (len(preds) == 0 || slices.Max(preds) < v)
	}
	if topological {
		return order
	}
	return g.SortedBy(order)
}

// SortedBy returns the order that always runs the ready node of the smallest place.
// It is shorter than the nodes if they have a cycle.
func (g *Problem) SortedBy(place []int32) (order []int32) {
	waits := make([]int32, g.Nodes)
	ready := Heap[int32]{Less: func(a, b int32) bool { return place[a] < place[b] }}
	for i := range waits {
		v := int32(i)
		if waits[v] = int32(len(g.Preds.Of(v))); waits[v] == 0 {
			ready.Push(v)
		}
	}
	for len(ready.Items) > 0 {
		v := ready.Pop()
		order = append(order, v)
		for _, w := range g.Succs.Of(v) {
			if waits[w]--; waits[w] == 0 {
				ready.Push(w)
			}
		}
	}
	return order
}

// LiveFirst returns the bytes live before the first step.
func (g *Problem) LiveFirst() int64 {
	live := g.Base
	for t, v := range g.Maker {
		if v < 0 {
			live += g.Size[t]
		}
	}
	return live
}

// LiveLast returns the bytes live after the last step.
func (g *Problem) LiveLast() int64 {
	live := g.Base
	for t, output := range g.Output {
		if output {
			live += g.Size[t]
		}
	}
	return live
}

// Live returns live(S). O(E).
func (g *Problem) Live(in []bool) int64 {
	live := g.Base
	for i, v := range g.Maker {
		if v >= 0 && !in[v] {
			continue
		}
		t := int32(i)
		needed := g.Output[t]
		for _, r := range g.Readers.Of(t) {
			if needed = needed || !in[r]; needed {
				break
			}
		}
		if needed {
			live += g.Size[t]
		}
	}
	return live
}

// Unread returns for each tensor how many readers it has.
func (g *Problem) Unread(buf []int32) []int32 {
	buf = Resize(buf, len(g.Size))
	for t := range buf {
		buf[t] = g.Readers.Start[t+1] - g.Readers.Start[t]
	}
	return buf
}

// Loads returns the load at each step of a topological order. O(E).
func (g *Problem) Loads(order []int32, buf []int64) []int64 {
	unread := g.Unread(nil)
	live, idle := g.LiveFirst(), g.Idle
	buf = buf[:0]
	for _, v := range order {
		buf = append(buf, live+idle+g.Need(v, unread, 1))
		idle = 0
		live = g.LiveAfter(v, live, unread)
	}
	return buf
}

// Peak returns the largest of some loads and the first step that has it.
func Peak(loads []int64) (peak int64, step int) {
	for i, l := range loads {
		if l > peak {
			peak, step = l, i
		}
	}
	return peak, step
}

// Granularity returns the greatest number of bytes that divides every load.
func (g *Problem) Granularity() int64 {
	return Divisor(g.Size, g.Transient, []int64{g.Base, g.Idle})
}

// NewProblem leaves out resident, empty and dead tensors. A tensor that no node
// makes and that is an output is live at every step. O(E) beside the matchings.
func NewProblem(f *Graph) *Problem {
	g := &Problem{Nodes: f.Nodes, Transient: slices.Clone(f.Workspace)}
	_, g.Idle = f.InputBytes()
	place := make([]int32, len(f.Size))
	for i := range f.Size {
		t, size, v := int32(i), f.Size[i], f.Producer[i]
		place[i] = -1
		if size == 0 {
			continue
		}
		if v >= 0 {
			g.Transient[v] += size
		}
		switch {
		case !f.Kept(t): // in trans, or idle
		case v < 0 && f.Output[t]:
			g.Base += size
		default:
			place[i] = g.AddTensor(size, v, f.Output[t], f.Readers.Of(t))
		}
	}
	g.FinishTensors()
	g.Preds = f.Precedence()
	g.Succs = g.Preds.Inverse(g.Nodes)
	g.addPairs(f, place)
	return g
}

// addPairs adds the in-place pairs of the graph; place says where a tensor is in the
// problem. The tensor written over is always there: it is read and has a size.
func (g *Problem) addPairs(f *Graph, place []int32) {
	for i := range f.Nodes {
		v := int32(i)
		var pairs []InPlacePair
		for _, pair := range f.PairsOf(v) {
			pairs = append(pairs, InPlacePair{pair.Result, place[pair.Over], f.Size[pair.Over]})
		}
		if len(pairs) > 0 {
			g.SetSavings(v, g.NewSavings(pairs, nil))
		}
	}
}

// LiveAfter returns the live bytes after v has run.
func (g *Problem) LiveAfter(v int32, live int64, unread []int32) int64 {
	for _, t := range g.Makes.Of(v) {
		live += g.Size[t]
	}
	for _, t := range g.Reads.Of(v) {
		if unread[t]--; unread[t] == 0 && !g.Output[t] {
			live -= g.Size[t]
		}
	}
	return live
}

// TooLarge reports whether sums of infinite and sizes could overflow.
func (g *Problem) TooLarge() bool {
	left := Infinite/4 - g.Idle
	for _, list := range [2][]int64{g.Size, g.Transient} {
		for _, x := range list {
			if left -= x; left < 0 {
				return true
			}
		}
	}
	return g.Base > left
}

// AddPrecedence adds precedence, first before second, and reports whether the problem
// still has an order.
func (g *Problem) AddPrecedence(edges [][2]int32) bool {
	preds := g.Preds.Slices()
	for _, e := range edges {
		if !slices.Contains(preds[e[1]], e[0]) {
			preds[e[1]] = append(preds[e[1]], e[0])
		}
	}
	g.Preds = Lists{}
	for _, list := range preds {
		g.Preds.Add(list...)
	}
	g.Preds.Finish()
	g.Succs = g.Preds.Inverse(g.Nodes)
	return len(g.Listing()) == g.Nodes
}
