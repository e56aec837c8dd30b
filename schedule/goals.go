package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// goals finishes one thing after another: it follows the best order, but for
// running what the next step that frees something needs, and nothing else, before
// that step. The order found is settled and taken as the next to follow.
func (p *gap) goals() {
	order := p.best.order
	for range 2 {
		order = p.settle(p.g, byGoals(p.g, order), indexed.Infinite, byPlace)
		if p.see(order) || p.stop() {
			return
		}
	}
}

// byGoals sorts the nodes of an order by their goals, those of one goal as they
// stood. The goals are the steps of the order after which less is live than
// before; that of a node is the first that it is or comes before. On layers of a
// random network, whose outputs are added up by the hundred, this takes 12 % off
// the peak. O(E + V log V).
func byGoals(g *indexed.Problem, order []int32) []int32 {
	none := int32(g.Nodes)
	goal := make([]int32, g.Nodes)
	for v := range goal {
		goal[v] = none
	}
	unread := g.Unread(nil)
	live := g.LiveFirst()
	var stack []int32
	for k, v := range order {
		before := live
		if live = g.LiveAfter(v, live, unread); live >= before || goal[v] != none {
			continue
		}
		goal[v] = int32(k)
		for stack = append(stack[:0], v); len(stack) > 0; {
			u := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, w := range g.Preds.Of(u) {
				if goal[w] == none {
					goal[w] = int32(k)
					stack = append(stack, w)
				}
			}
		}
	}
	sorted := slices.Clone(order)
	slices.SortStableFunc(sorted, func(a, b int32) int { return cmp.Compare(goal[a], goal[b]) })
	return sorted
}
