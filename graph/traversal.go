package graph

import "slices"

// ReverseDepthFirst returns the order in which ONNX Runtime runs the nodes of a graph by
// default. It is the post-order of a depth-first search that begins with the last node whose
// results no node reads. The search goes to the last of the makers of a node's inputs first,
// as the nodes are listed. What bodies capture are inputs. The graph must be acyclic. O(E log
// V).
func (g *Graph) ReverseDepthFirst() []NodeID {
	order := make([]NodeID, 0, len(g.Nodes))
	reached := make([]bool, len(g.Nodes))
	type frame struct {
		node NodeID
		left []NodeID // makers of its inputs, ascending: the last is visited first
	}
	var stack []frame
	visit := func(n NodeID) {
		if !reached[n] {
			reached[n] = true
			stack = append(stack, frame{n, g.makers(n)})
		}
	}
	for root := NodeID(len(g.Nodes)) - 1; root >= 0; root-- {
		if g.isRead(root) {
			continue
		}
		visit(root)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if k := len(top.left) - 1; k >= 0 {
				next := top.left[k]
				top.left = top.left[:k]
				visit(next)
				continue
			}
			order = append(order, top.node)
			stack = stack[:len(stack)-1]
		}
	}
	return order
}

// makers lists the nodes that make what a node reads, ascending.
func (g *Graph) makers(n NodeID) (list []NodeID) {
	g.Nodes[n].Reads(func(t TensorID) {
		if m := g.Tensors[t].Maker; m >= 0 {
			list = append(list, m)
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// isRead reports whether a node reads a result of node n.
func (g *Graph) isRead(n NodeID) bool {
	return slices.ContainsFunc(g.Nodes[n].Outputs, func(t TensorID) bool { return t >= 0 && len(g.Tensors[t].Readers) > 0 })
}

// ReorderReverseDepthFirst puts the nodes of a graph, and of all bodies in it, into the
// order of [Graph.ReverseDepthFirst].
func (g *Graph) ReorderReverseDepthFirst() {
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				body.ReorderReverseDepthFirst()
			}
		}
	}
	g.Reorder(g.ReverseDepthFirst())
}
