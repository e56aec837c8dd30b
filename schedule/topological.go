package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Program returns program order, the order in which the problem lists its nodes, if that is
// topological. Otherwise it returns the order that always runs the ready node of the
// smallest index (Kahn 1962 with a heap), which is the lexicographically smallest
// topological order. O(E + V log V).
func Program(p *Problem) []int32 {
	return kahn(index(p), func(a, b int32) bool { return a < b })
}

// kahn returns the order that always runs the least of the ready nodes; less must be a
// total order.
func kahn(f *indexed.Graph, less func(a, b int32) bool) []int32 {
	waits := f.Waits()
	ready := indexed.Heap[int32]{Less: less}
	for v, n := range waits {
		if n == 0 {
			ready.Push(int32(v))
		}
	}
	order := make([]int32, 0, f.Nodes)
	for len(ready.Items) > 0 {
		v := ready.Pop()
		order = append(order, v)
		f.Run(v, waits, ready.Push)
	}
	return order
}

// BreadthFirst returns the nodes in the order in which they become ready (Kahn 1962): first
// the nodes without predecessors, then, after each node, those that become ready by it.
// Ties fall to the smaller index. O(E log V).
func BreadthFirst(p *Problem) []int32 { return breadthFirst(index(p)) }

// breadthFirst omits the nodes of cycles and all their descendants.
func breadthFirst(f *indexed.Graph) []int32 {
	waits := f.Waits()
	order := make([]int32, 0, f.Nodes)
	for v, n := range waits {
		if n == 0 {
			order = append(order, int32(v))
		}
	}
	for i := 0; i < len(order); i++ {
		end := len(order)
		f.Run(order[i], waits, func(r int32) { order = append(order, r) })
		slices.Sort(order[end:])
	}
	return order
}

// DepthFirst returns the nodes in post-order (Tarjan 1976): for each sink, by index, first
// its ancestors, depth first, with the inputs of a node in the order of their listing. So
// one branch ends before the next begins. O(E).
func DepthFirst(p *Problem) []int32 {
	f := index(p)
	var needs indexed.Lists
	for v := range int32(f.Nodes) {
		for _, t := range f.Reads.Of(v) {
			if m := f.Producer[t]; m >= 0 {
				needs.Items = append(needs.Items, m)
			}
		}
		needs.Add()
	}
	return postOrder(sinks(f), needs.Finish())
}

// sinks returns the nodes whose tensors nobody reads, by index.
func sinks(f *indexed.Graph) (sinks []int32) {
	for v := range int32(f.Nodes) {
		if f.IsSink(v) {
			sinks = append(sinks, v)
		}
	}
	return sinks
}

// postOrder returns the roots and their ancestors, each after its own predecessors. It
// visits the roots in turn, depth first, and the predecessors of a node in the order in
// which needs lists them.
func postOrder(roots []int32, needs indexed.Lists) []int32 {
	nodes := len(needs.Start) - 1
	order := make([]int32, 0, nodes)
	reached := make([]bool, nodes)
	type frame struct {
		node int32
		next int // the index of the next predecessor to visit
	}
	var stack []frame
	for _, root := range roots {
		if reached[root] {
			continue
		}
		reached[root] = true
		stack = append(stack, frame{node: root})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			list := needs.Of(top.node)
			if top.next == len(list) {
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			u := list[top.next]
			top.next++
			if !reached[u] {
				reached[u] = true
				stack = append(stack, frame{node: u})
			}
		}
	}
	return order
}
