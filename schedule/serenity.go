package schedule

import (
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// These bound the work of [Serenity] on one problem to some tenths of a second.
const (
	serenityWidth = 1000
	serenityMoves = 200_000
)

// Serenity returns the order of Ahn et al. 2020, "Ordering Chaos: Memory-Aware
// Scheduling of Irregularly Wired Neural Networks for Edge Devices". It implements
//
//   - the dynamic programming over states, the sets of nodes that have run (algorithm 1).
//     The paper identifies a state by the nodes that are ready, this function by a hash of
//     the nodes that have run; each determines the other.
//   - the adaptive soft budget (algorithm 2). Its first value is the peak of
//     [BreadthFirst], which is Kahn's order. A budget that no order keeps is raised, and
//     one with too many states is lowered, to the middle of the remaining interval.
//   - the division at nodes that are ordered with all others.
//
// It leaves out the paper's rewriting of the graph, which changes the computation.
// Workspaces and in-place pairs count, as everywhere in this package. The paper limits the
// time of each step; this function limits each step to 1,000 states and the whole problem
// to 200,000 moves from a state to the next. A part that needs more keeps the order of
// BreadthFirst.
//
// So the order is optimal if every part is solved, and never worse than BreadthFirst. On
// training graphs most parts are not solved, because updates are ordered with hardly any
// other node. Ties fall to the first state found, with nodes in the order in which they
// become ready.
// O(moves x degree).
func Serenity(p *Problem) []int32 {
	order, _, _ := serenity(p)
	return order
}

// serenity also returns the number of parts, and how many of them keep their first order.
func serenity(p *Problem) (order []int32, parts, left int) {
	f := index(p)
	g := indexed.NewProblem(f)
	order = breadthFirst(f)
	d := &exact.Downsets{Width: serenityWidth, Moves: serenityMoves}
	for _, part := range divide(g, order, reduce.Separators(g, order)) {
		parts++
		first := indexed.Ascending(part.g.Nodes)
		most, _ := indexed.Peak(part.g.Loads(first, nil))
		best := d.Best(part.g, most)
		if best == nil {
			left++
			continue
		}
		part.reorder(best)
	}
	return order, parts, left
}

// division is a part of a problem that is ordered by itself.
type division struct {
	g     *indexed.Problem
	nodes []int32 // node of the part -> node of the whole; a slice of the whole order
}

// reorder changes the order of the part's nodes within the whole order.
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
