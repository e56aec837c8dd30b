package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// Lifetime is a buffer of an order: the storage of one tensor, of a chain of tensors
// each written over the one before, or of a node's workspace.
type Lifetime struct {
	Tensors     []int32 // in the order in which they are written; empty: a workspace
	Node        int32   // the node of a workspace, or -1
	Bytes       int64
	First, Last int // the lifetime: steps, both inclusive
}

// Lifetimes returns the buffers of an order, by ascending first step: this is the way
// from an order to its placement. taken lists the in-place pairs of the order by step,
// as in [Evaluation].Taken; the tensors of a chain of pairs share one buffer. Resident
// tensors and tensors of 0 bytes have no buffer. Lifetimes fails if the order does not
// contain each node once, or if the pairs form no chains. O(E + n log n).
func (p *Problem) Lifetimes(order []int32, taken []Pair) ([]Lifetime, error) {
	step, err := p.steps(order)
	if err != nil {
		return nil, err
	}
	chains, err := match.Chains(len(p.Tensors), taken)
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

// steps returns the step of each node.
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

// span returns the lifetime of a tensor that is in no in-place pair.
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
