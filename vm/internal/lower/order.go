package lower

import (
	"container/heap"

	"github.com/onnxmem/onnxmem/graph"
)

// reversed returns the topological order that always takes, of the ready nodes, the one
// listed last: an order that has little in common with the listed one.
func reversed(g *graph.Graph) []graph.NodeID {
	waiting := make([]int, len(g.Nodes))
	readers := make([][]graph.NodeID, len(g.Nodes))
	for i, n := range g.Nodes {
		n.Reads(func(t graph.TensorID) {
			if m := g.Tensors[t].Maker; m >= 0 {
				waiting[i]++
				readers[m] = append(readers[m], graph.NodeID(i))
			}
		})
	}
	var ready latest
	for i, w := range waiting {
		if w == 0 {
			heap.Push(&ready, graph.NodeID(i))
		}
	}
	order := make([]graph.NodeID, 0, len(g.Nodes))
	for ready.Len() > 0 {
		n := heap.Pop(&ready).(graph.NodeID)
		order = append(order, n)
		for _, r := range readers[n] {
			if waiting[r]--; waiting[r] == 0 {
				heap.Push(&ready, r)
			}
		}
	}
	return order
}

// latest is a heap of nodes with the one listed last on top.
type latest []graph.NodeID

func (h latest) Len() int           { return len(h) }
func (h latest) Less(i, j int) bool { return h[i] > h[j] }
func (h latest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a node.
func (h *latest) Push(x any) { *h = append(*h, x.(graph.NodeID)) }

// Pop takes the last of the list.
func (h *latest) Pop() any {
	a := *h
	x := a[len(a)-1]
	*h = a[:len(a)-1]
	return x
}
