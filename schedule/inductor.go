package schedule

import (
	"cmp"
	"slices"
	"sort"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// LeastPeakFirst returns the order topological_sort_lpmf of PyTorch Inductor
// (torch/_inductor/memory.py), after "Buffer memory optimization for video codec
// application modeled in Simulink" (DAC 2006). It tracks the live bytes and the peak so
// far. Among the ready nodes that would not raise the peak it runs the one that raises
// the live bytes least once its inputs are freed. If there is none, it runs the node with
// the smallest outputs. Ties fall to the node that raises the live bytes less, then to
// the smaller index.
//
// Sizes count as in the original. A node adds the bytes of all its outputs; it frees its
// inputs that have no other reader left, and its outputs that nobody reads. At the start
// all inputs are live, and the peak so far is at least the sum of the graph's outputs.
// Resident tensors, inputs that nobody reads, workspaces and in-place pairs do not
// count. The original's variant for graphs of large nodes
// (size_threshold_for_succ_based_strategy), which is off by default, is left out.
//
// The original looks at all ready nodes at each step. Here they are in a tree, sorted by
// size: O((E + V) log V).
func LeastPeakFirst(p *Problem) []int32 {
	f := index(p)
	takes := make([]int64, f.Nodes)
	adds := make([]int64, f.Nodes) // takes, less the bytes that a run now would free
	users := f.Unread()
	var live, outputs int64
	for t, size := range f.Size {
		v := f.Producer[t]
		if v >= 0 {
			takes[v] += size
			adds[v] += size
		} else if len(f.Readers.Of(int32(t))) > 0 {
			live += size
		}
		switch {
		case f.Output[t]:
			outputs += size
			users[t]++ // the graph itself, so that it is never freed
		case users[t] == 0 && v >= 0:
			adds[v] -= size
		case users[t] == 1:
			adds[f.Readers.Of(int32(t))[0]] -= size
		}
	}
	most := max(live, outputs)

	ready := newBySize(takes, adds)
	waits := f.Waits()
	for v, n := range waits {
		if n == 0 {
			ready.set(int32(v), int32(v))
		}
	}
	order := make([]int32, 0, f.Nodes)
	for len(order) < f.Nodes {
		v := ready.best(most - live)
		ready.set(v, none)
		order = append(order, v)
		most = max(most, live+takes[v])
		live += adds[v]
		for _, t := range f.Reads.Of(v) {
			if users[t]--; users[t] != 1 || f.Output[t] {
				continue
			}
			for _, r := range f.Readers.Of(t) {
				adds[r] -= f.Size[t] // no longer used for readers that have run
				ready.update(r)
			}
		}
		f.Run(v, waits, func(r int32) { ready.set(r, r) })
	}
	return order
}

// bySize holds the ready nodes in a binary tree. The leaves stand for all nodes, by
// ascending size. Each vertex holds the ready node below it that adds least, or none.
type bySize struct {
	size   []int64 // ascending
	adds   []int64
	leaf   []int32 // node -> its leaf
	tree   []int32 // a node or none; the children of i are 2i and 2i+1
	leaves int     // a power of two
}

const none = int32(-1)

func newBySize(size, adds []int64) *bySize {
	b := &bySize{adds: adds, leaf: make([]int32, len(size)), leaves: 1}
	for b.leaves < len(size) {
		b.leaves *= 2
	}
	order := indexed.Ascending(len(size))
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(size[x], size[y]), cmp.Compare(x, y))
	})
	for i, v := range order {
		b.size = append(b.size, size[v])
		b.leaf[v] = int32(i)
	}
	b.tree = make([]int32, 2*b.leaves)
	for i := range b.tree {
		b.tree[i] = none
	}
	return b
}

// set stores node, which is v or none, in the leaf of v.
func (b *bySize) set(v, node int32) {
	i := b.leaves + int(b.leaf[v])
	b.tree[i] = node
	for i /= 2; i > 0; i /= 2 {
		b.tree[i] = b.less(b.tree[2*i], b.tree[2*i+1])
	}
}

// update restores the tree after adds[v] has changed.
func (b *bySize) update(v int32) { b.set(v, b.tree[b.leaves+int(b.leaf[v])]) }

// less returns the one of two nodes that adds less; either may be none.
func (b *bySize) less(x, y int32) int32 {
	switch {
	case x == none:
		return y
	case y == none:
		return x
	case b.adds[x] < b.adds[y] || b.adds[x] == b.adds[y] && x < y:
		return x
	}
	return y
}

// best returns the ready node that adds least among those whose size is at most room, or,
// if there is none, among those of the smallest size. Some node must be ready.
func (b *bySize) best(room int64) int32 {
	above := func(size int64) int {
		return sort.Search(len(b.size), func(i int) bool { return b.size[i] > size })
	}
	if v := b.first(above(room)); v != none {
		return v
	}
	i := 1
	for i < b.leaves {
		if i *= 2; b.tree[i] == none {
			i++
		}
	}
	return b.first(above(b.size[i-b.leaves]))
}

// first returns the ready node that adds least among the first leaves.
func (b *bySize) first(leaves int) int32 {
	best := none
	for from, to := b.leaves, b.leaves+leaves; from < to; from, to = from/2, to/2 {
		if from%2 == 1 {
			best = b.less(best, b.tree[from])
			from++
		}
		if to%2 == 1 {
			to--
			best = b.less(best, b.tree[to])
		}
	}
	return best
}

// EarliestInputsFirst returns the order topological_sort_bfs of PyTorch Inductor
// (torch/_inductor/memory.py): it runs the ready node whose inputs were made earliest.
// The key of a node is the ascending list of the steps of its direct predecessors. Keys
// are compared lexicographically, and ties fall to the smaller index. Sizes do not count.
// O(E log V), plus the length of the common prefix for each comparison.
func EarliestInputsFirst(p *Problem) []int32 {
	f := index(p)
	steps := f.Precedence() // a node's predecessors are replaced by their steps when it is ready
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

// SmallestFirst returns the order topological_sort_dfs of PyTorch Inductor
// (torch/_inductor/memory.py): it visits the nodes in ascending order of the bytes that
// they touch, that is, of the tensors that they read and make. Before a node it visits
// the node's predecessors, in the same order. Resident tensors count as 0 bytes, as
// parameters do in the original. Workspaces and in-place pairs do not count. Ties fall to
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
