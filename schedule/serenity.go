package schedule

import (
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// Bounds of [Serenity] on one problem: some tenths of a second.
const (
	serenityWidth = 1000
	serenityMoves = 200_000
)

// Serenity returns the order of Ahn et al. 2020, "Ordering Chaos: Memory-Aware
// Scheduling of Irregularly Wired Neural Networks for Edge Devices". Of the paper it
// has
//
//   - the dynamic programming over sets of nodes that have run (algorithm 1). They
//     name a set by the nodes that are ready, here it is named by a hash of those
//     that have run: each says the other.
//   - the adaptive soft budget (algorithm 2), whose first value is the peak of
//     [BreadthFirst], which is Kahn's order. What no order keeps is raised, what
//     leaves too many states lowered, here each to the middle of what is left.
//   - the division at nodes that are comparable with all others.
//
// It has not their rewriting of the graph, which changes what is computed. It differs
// in what a step holds: workspace and in-place pairs count too, as everywhere here.
// And where they give each step a time, here each step has 1,000 states and the whole
// problem 200,000 moves from a state to the next; a part that needs more keeps the
// order of BreadthFirst.
//
// So the order is optimal if no part is left so, and never worse than BreadthFirst. On
// training graphs parts are mostly left: the updates are comparable with hardly any
// node. Ties fall to what is found first, nodes in the order in which they become
// ready. O(moves x degree).
func Serenity(p *Problem) []int32 {
	order, _, _ := serenity(p)
	return order
}

// serenity also says into how many parts the problem falls, and how many of
// them keep their first order.
func serenity(p *Problem) (order []int32, parts, left int) {
	f := index(p)
	g := indexed.NewProblem(f)
	order = breadthFirst(f)
	d := &exact.Downsets{Width: serenityWidth, Moves: serenityMoves}
	for _, part := range divide(g, order, reduce.Bridges(g, order)) {
		parts++
		first := indexed.Ascending(part.net.Nodes)
		most, _ := indexed.Peak(part.net.Loads(first, nil))
		best := d.Best(part.net, most)
		if best == nil {
			left++
			continue
		}
		part.reorder(best)
	}
	return order, parts, left
}

// division is a part of a net that is ordered apart.
type division struct {
	net   *indexed.Problem
	nodes []int32 // node of the part -> node of the whole, a piece of its order
}

// reorder puts the nodes of the part into another order, in the whole.
func (d division) reorder(order []int32) {
	moved := make([]int32, len(order))
	for i, v := range order {
		moved[i] = d.nodes[v]
	}
	copy(d.nodes, moved)
}

// divide cuts a topological order at some ends and returns the parts. Bytes of
// inputs that nobody reads are part of the first.
func divide(g *indexed.Problem, order []int32, ends []int) (parts []division) {
	var p reduce.Extractor
	p.PlaceAll(g, reduce.After)
	unread := g.Unread(nil)
	live, from := g.LiveFirst(), 0
	for _, end := range ends {
		nodes := order[from:end]
		h := p.Extract(g, nodes, live)
		if from == 0 {
			h.Idle = g.Idle
		}
		parts = append(parts, division{h, nodes})
		for _, v := range nodes {
			p.Where[v] = reduce.Before
			live = g.LiveAfter(v, live, unread)
		}
		from = end
	}
	return parts
}
