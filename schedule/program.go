package schedule

import "github.com/onnxmem/onnxmem/schedule/internal/indexed"

// Program returns the order of the listing, if it is topological; else the one
// that always runs the ready node of the smallest index (Kahn 1962 with a heap,
// the lexicographically smallest topological order). O(E + V log V).
func Program(p *Problem) []int32 {
	return kahn(index(p), func(a, b int32) bool { return a < b })
}

// kahn returns the order that always runs the first of the ready nodes by less,
// which must order all nodes.
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
