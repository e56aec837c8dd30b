package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// DepthFirst returns the nodes in post-order (Tarjan 1976): for each sink, by
// index, first all that it needs, depth first, its inputs in the order of their
// listing. A branch is thus finished before the next is begun. O(E).
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

// sinks returns the nodes of whose tensors none is read, by index.
func sinks(f *indexed.Graph) (sinks []int32) {
	for v := range int32(f.Nodes) {
		if f.IsSink(v) {
			sinks = append(sinks, v)
		}
	}
	return sinks
}

// postOrder returns all nodes that the roots need, each after those that it
// needs itself: from each root in turn, depth first, along needs in their order.
func postOrder(roots []int32, needs indexed.Lists) []int32 {
	nodes := len(needs.Start) - 1
	order := make([]int32, 0, nodes)
	reached := make([]bool, nodes)
	type frame struct {
		node int32
		next int // the next of its needs to look at
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
