package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// SmallestFirst returns the order topological_sort_dfs of PyTorch Inductor
// (torch/_inductor/memory.py): the nodes are visited in ascending order of all
// bytes that they touch, those of the tensors that they read and make, each
// after what it needs, in the same order. Resident tensors touch nothing, as
// parameters do there. Workspace and in-place pairs count nothing; ties fall to
// the smaller index. O(E log V).
func SmallestFirst(p *Problem) []int32 {
	f := index(p)
	touched := make([]int64, f.Nodes)
	for i := range touched {
		v := int32(i)
		for _, t := range f.Makes.Of(v) {
			touched[v] += f.Size[t]
		}
		for _, t := range f.Reads.Of(v) {
			touched[v] += f.Size[t]
		}
	}
	least := func(a, b int32) int {
		return cmp.Or(cmp.Compare(touched[a], touched[b]), cmp.Compare(a, b))
	}
	roots := indexed.Ascending(f.Nodes)
	slices.SortFunc(roots, least)
	needs := f.Precedence()
	for v := range int32(f.Nodes) {
		slices.SortFunc(needs.Of(v), least)
	}
	return postOrder(roots, needs)
}
