package schedule

// DepthFirst returns the nodes in post-order (Tarjan 1976): for each sink, by
// index, first all that it needs, depth first, its inputs in the order of their
// listing. A branch is thus finished before the next is begun. O(E).
func DepthFirst(p *Problem) []int32 {
	f := flatten(p)
	order := make([]int32, 0, f.nodes)
	reached := make([]bool, f.nodes)
	type frame struct {
		node int32
		next int // the next of its inputs to look at
	}
	var stack []frame
	for i := range f.nodes {
		if !f.isSink(int32(i)) {
			continue
		}
		reached[i] = true
		stack = append(stack, frame{node: int32(i)})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			read := f.read.of(top.node)
			if top.next == len(read) {
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			m := f.producer[read[top.next]]
			top.next++
			if m >= 0 && !reached[m] {
				reached[m] = true
				stack = append(stack, frame{node: m})
			}
		}
	}
	return order
}

// isSink reports whether no node reads what v makes.
func (f *flat) isSink(v int32) bool {
	for _, t := range f.made.of(v) {
		if len(f.readers.of(t)) > 0 {
			return false
		}
	}
	return true
}
