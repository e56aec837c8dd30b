package schedule

import "slices"

// EarliestInputsFirst returns the order topological_sort_bfs of PyTorch Inductor
// (torch/_inductor/memory.py): it runs the ready node whose inputs were made
// earliest. Each node's key is the ascending list of the steps of its direct
// predecessors; keys are compared item by item, and a list that ends sooner
// comes first. Ties fall to the smaller index; sizes count nothing.
// O(E log V), and for each comparison the items that two keys share.
func EarliestInputsFirst(p *Problem) []int32 {
	f := flatten(p)
	steps := f.precedence() // turned into steps when a node becomes ready
	preds := lists{steps.start, slices.Clone(steps.items)}
	step := make([]int32, f.nodes)
	ready := heap[int32]{less: func(a, b int32) bool {
		c := slices.Compare(steps.of(a), steps.of(b))
		return c < 0 || c == 0 && a < b
	}}
	push := func(v int32) {
		key := steps.of(v)
		for i, u := range preds.of(v) {
			key[i] = step[u]
		}
		slices.Sort(key)
		ready.push(v)
	}
	waits := f.waits()
	for v, n := range waits {
		if n == 0 {
			push(int32(v))
		}
	}
	order := make([]int32, 0, f.nodes)
	for len(ready.items) > 0 {
		v := ready.pop()
		step[v] = int32(len(order))
		order = append(order, v)
		f.run(v, waits, push)
	}
	return order
}
