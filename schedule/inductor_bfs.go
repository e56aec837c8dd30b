package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// EarliestInputsFirst returns the order topological_sort_bfs of PyTorch Inductor
// (torch/_inductor/memory.py): it runs the ready node whose inputs were made
// earliest. Each node's key is the ascending list of the steps of its direct
// predecessors; keys are compared item by item, and a list that ends sooner
// comes first. Ties fall to the smaller index; sizes count nothing.
// O(E log V), and for each comparison the items that two keys share.
func EarliestInputsFirst(p *Problem) []int32 {
	f := index(p)
	steps := f.Precedence() // turned into steps when a node becomes ready
	preds := indexed.Lists{Start: steps.Start, Items: slices.Clone(steps.Items)}
	step := make([]int32, f.Nodes)
	ready := indexed.Heap[int32]{Less: func(a, b int32) bool {
		c := slices.Compare(steps.Of(a), steps.Of(b))
		return c < 0 || c == 0 && a < b
	}}
	push := func(v int32) {
		key := steps.Of(v)
		for i, u := range preds.Of(v) {
			key[i] = step[u]
		}
		slices.Sort(key)
		ready.Push(v)
	}
	waits := f.Waits()
	for v, n := range waits {
		if n == 0 {
			push(int32(v))
		}
	}
	order := make([]int32, 0, f.Nodes)
	for len(ready.Items) > 0 {
		v := ready.Pop()
		step[v] = int32(len(order))
		order = append(order, v)
		f.Run(v, waits, push)
	}
	return order
}
