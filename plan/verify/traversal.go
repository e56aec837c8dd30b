package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// inRunOrder replaces the model by a copy whose nodes, as those of its bodies, are in the
// order in which ONNX Runtime runs them by default. That order is computed here once more:
// the graph package's is the planner's.
func (v *verifier) inRunOrder() bool {
	if v.Plan.Traversal == nil {
		return true
	}
	v.Claim("traversal.best_peak_bytes")
	m := *v.Model
	m.Graph = v.Model.Graph.Clone()
	reorderAsRun(m.Graph)
	v.Model = &m
	return true
}

func reorderAsRun(g *graph.Graph) {
	for _, n := range g.Nodes {
		for _, a := range n.Attrs {
			for _, body := range a.All() {
				reorderAsRun(body)
			}
		}
	}
	g.Reorder(runOrder(g))
}

// runOrder simulates the runtime: a stack on which the nodes without a reader lie in their
// order, and from which the uppermost is taken. A node that is taken for the first time goes
// back, marked, and the makers of its inputs go on top of it in their order; a marked one
// runs.
func runOrder(g *graph.Graph) []graph.NodeID {
	type entry struct {
		node graph.NodeID
		runs bool
	}
	var stack []entry
	needs := make([][]graph.NodeID, len(g.Nodes))
	for id, n := range g.Nodes {
		read := false
		for _, t := range n.Outputs {
			read = read || t >= 0 && len(g.Tensors[t].Readers) > 0
		}
		if !read {
			stack = append(stack, entry{graph.NodeID(id), false})
		}
		for _, list := range [][]graph.TensorID{n.Inputs, n.Captures} {
			for _, t := range list {
				if t >= 0 && g.Tensors[t].Maker >= 0 {
					needs[id] = append(needs[id], g.Tensors[t].Maker)
				}
			}
		}
		slices.Sort(needs[id])
	}
	var order []graph.NodeID
	taken := make([]bool, len(g.Nodes))
	for len(stack) > 0 {
		e := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case e.runs:
			order = append(order, e.node)
		case !taken[e.node]:
			taken[e.node] = true
			stack = append(stack, entry{e.node, true})
			for _, m := range needs[e.node] {
				stack = append(stack, entry{m, false})
			}
		}
	}
	return order
}
