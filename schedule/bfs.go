package schedule

import "slices"

// BreadthFirst returns the nodes in the order in which they become ready (Kahn
// 1962): first those that wait for nothing, by index; then, after each node,
// those that waited for it alone, by index. O(E log V).
func BreadthFirst(p *Problem) []int32 { return flatten(p).breadthFirst() }

// breadthFirst leaves out the nodes of cycles and all that wait for them.
func (f *flat) breadthFirst() []int32 {
	waits := f.waits()
	order := make([]int32, 0, f.nodes)
	for v, n := range waits {
		if n == 0 {
			order = append(order, int32(v))
		}
	}
	for i := 0; i < len(order); i++ {
		end := len(order)
		f.run(order[i], waits, func(r int32) { order = append(order, r) })
		slices.Sort(order[end:])
	}
	return order
}
