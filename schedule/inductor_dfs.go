package schedule

import (
	"cmp"
	"slices"
)

// SmallestFirst returns the order topological_sort_dfs of PyTorch Inductor
// (torch/_inductor/memory.py): the nodes are visited in ascending order of all
// bytes that they touch, those of the tensors that they read and make, each
// after what it needs, in the same order. Resident tensors touch nothing, as
// parameters do there. Workspace and in-place pairs count nothing; ties fall to
// the smaller index. O(E log V).
func SmallestFirst(p *Problem) []int32 {
	f := flatten(p)
	touched := make([]int64, f.nodes)
	for i := range touched {
		v := int32(i)
		for _, t := range f.made.of(v) {
			touched[v] += f.size[t]
		}
		for _, t := range f.read.of(v) {
			touched[v] += f.size[t]
		}
	}
	least := func(a, b int32) int {
		return cmp.Or(cmp.Compare(touched[a], touched[b]), cmp.Compare(a, b))
	}
	roots := ascending(f.nodes)
	slices.SortFunc(roots, least)
	needs := f.precedence()
	for v := range int32(f.nodes) {
		slices.SortFunc(needs.of(v), least)
	}
	return postOrder(roots, needs)
}
