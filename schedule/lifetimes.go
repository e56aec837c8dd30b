package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// Lifetime is a buffer of an order: the storage of one tensor, of several that
// are written over each other in a row, or of a node's workspace.
type Lifetime struct {
	Tensors     []int32 // in the order in which they are written; none for a workspace
	Node        int32   // the node of a workspace, else -1
	Bytes       int64
	First, Last int // the steps during which it holds its bytes, both inclusive
}

// Lifetimes gives the buffers of an order, by their first steps: the step from
// scheduling to placement. taken are the in-place pairs of the order, as
// [Evaluation].Taken has them; the tensors of a chain of pairs share one buffer.
// Resident tensors and those of 0 bytes have none. It fails if the order does not
// hold each node once, or if a pair is of no two tensors. O(E + n log n).
func (p *Problem) Lifetimes(order []int32, taken []Pair) ([]Lifetime, error) {
	step, err := p.steps(order)
	if err != nil {
		return nil, err
	}
	chains, err := chainsOf(len(p.Tensors), taken)
	if err != nil {
		return nil, err
	}
	var list []Lifetime
	for i, chain := range chains {
		t := &p.Tensors[i]
		if chain == nil || t.Resident || t.Bytes == 0 {
			continue
		}
		first, _ := p.span(t, step)
		_, last := p.span(&p.Tensors[chain[len(chain)-1]], step)
		list = append(list, Lifetime{Tensors: chain, Node: -1, Bytes: t.Bytes, First: first, Last: last})
	}
	for v := range p.Nodes {
		if bytes := p.Nodes[v].Workspace; bytes > 0 {
			list = append(list, Lifetime{Node: int32(v), Bytes: bytes, First: step[v], Last: step[v]})
		}
	}
	slices.SortStableFunc(list, func(a, b Lifetime) int { return cmp.Compare(a.First, b.First) })
	return list, nil
}

// steps gives the step of each node.
func (p *Problem) steps(order []int32) ([]int, error) {
	if len(order) != len(p.Nodes) {
		return nil, fmt.Errorf("order: expected %d nodes, found %d", len(p.Nodes), len(order))
	}
	step := make([]int, len(order))
	for i := range step {
		step[i] = -1
	}
	for i, v := range order {
		if v < 0 || int(v) >= len(step) || step[v] >= 0 {
			return nil, fmt.Errorf("order: step %d: expected a node from 0 to %d that has not run, found %d", i, len(step)-1, v)
		}
		step[v] = i
	}
	return step, nil
}

// span gives the steps during which a tensor holds its bytes.
func (p *Problem) span(t *Tensor, step []int) (first, last int) {
	if t.Producer >= 0 {
		first = step[t.Producer]
	}
	if t.Output {
		return first, max(len(step)-1, 0)
	}
	last = first
	for _, v := range t.Consumers {
		last = max(last, step[v])
	}
	return first, last
}

// chainsOf gives, for each of n tensors that is written over no other, the tensors
// that are written over it in a row, itself first; nil for the others. The pairs
// stand in the order of their steps.
func chainsOf(n int, taken []Pair) ([][]int32, error) {
	head := make([]int32, n) // the first tensor of the chain that i is in
	chains := make([][]int32, n)
	for i := range head {
		head[i] = int32(i)
		chains[i] = []int32{int32(i)}
	}
	for _, pair := range taken { // by step: the chain of the earlier tensor is whole
		if min(pair.Over, pair.Result) < 0 || int(max(pair.Over, pair.Result)) >= n || len(chains[pair.Result]) != 1 || head[pair.Over] == pair.Result {
			return nil, fmt.Errorf("in-place pair: expected two of %d tensors, the later one in no other pair before, found %d over %d", n, pair.Result, pair.Over)
		}
		h := head[pair.Over]
		head[pair.Result], chains[pair.Result] = h, nil
		chains[h] = append(chains[h], pair.Result)
	}
	return chains, nil
}
