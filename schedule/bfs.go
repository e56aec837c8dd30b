package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// BreadthFirst returns the nodes in the order in which they become ready (Kahn
// 1962): first those that wait for nothing, by index; then, after each node,
// those that waited for it alone, by index. O(E log V).
func BreadthFirst(p *Problem) []int32 { return breadthFirst(index(p)) }

// breadthFirst leaves out the nodes of cycles and all that wait for them.
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
