package schedule

// Program returns the order of the listing, if it is topological; else the one
// that always runs the ready node of the smallest index (Kahn 1962 with a heap,
// the lexicographically smallest topological order). O(E + V log V).
func Program(p *Problem) []int32 {
	return flatten(p).kahn(func(a, b int32) bool { return a < b })
}

// kahn returns the order that always runs the first of the ready nodes by less,
// which must order all nodes.
func (f *flat) kahn(less func(a, b int32) bool) []int32 {
	waits := f.waits()
	ready := heap[int32]{less: less}
	for v, n := range waits {
		if n == 0 {
			ready.push(int32(v))
		}
	}
	order := make([]int32, 0, f.nodes)
	for len(ready.items) > 0 {
		v := ready.pop()
		order = append(order, v)
		f.run(v, waits, ready.push)
	}
	return order
}
