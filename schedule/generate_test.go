package schedule

import (
	"slices"

	"pgregory.net/rapid"
)

// drawProblem draws a problem of up to maxNodes nodes: few distinct sizes, so
// that pairs match, some of them 0; workspace, outputs, resident, unread and
// control tensors, makers among their own readers and readers listed twice.
// Program order need not be topological.
func drawProblem(t *rapid.T, maxNodes int) *Problem {
	n := rapid.IntRange(0, maxNodes).Draw(t, "nodes")
	p := &Problem{Nodes: make([]Node, n)}
	for v := range p.Nodes {
		if rapid.IntRange(0, 3).Draw(t, "works") == 0 {
			p.Nodes[v].Workspace = int64(rapid.IntRange(1, 9).Draw(t, "workspace"))
		}
	}
	at := rapid.Permutation(indices(n)).Draw(t, "listing") // place in a hidden order -> node
	add := func(place int) {
		x := Tensor{Bytes: rapid.SampledFrom([]int64{0, 1, 4, 4, 4, 6}).Draw(t, "bytes"), Producer: -1}
		if place >= 0 {
			x.Producer = at[place]
		}
		for later := place + 1; later < n; later++ {
			if rapid.IntRange(0, 2).Draw(t, "reads") == 0 {
				x.Consumers = append(x.Consumers, at[later])
			}
		}
		switch rapid.IntRange(0, 11).Draw(t, "odd") {
		case 0:
			x.Resident = true
		case 1, 2:
			x.Output = true
		case 3:
			x.Consumers = append(x.Consumers, x.Consumers...)
		case 4:
			if place >= 0 {
				x.Consumers = append(x.Consumers, x.Producer)
			}
		}
		p.Tensors = append(p.Tensors, x)
	}
	for range rapid.IntRange(0, 2).Draw(t, "inputs") {
		add(-1)
	}
	for place := range n {
		for range rapid.IntRange(0, 2).Draw(t, "made") {
			add(place)
		}
	}
	for o := range p.Tensors {
		for r := range p.Tensors {
			v := p.Tensors[o].Producer
			// Now and then a pair that cannot count.
			if slices.Contains(p.Tensors[r].Consumers, v) && rapid.Bool().Draw(t, "reuse") ||
				rapid.IntRange(0, 19).Draw(t, "void") == 0 {
				p.Tensors[o].Reuses = append(p.Tensors[o].Reuses, int32(r))
			}
		}
	}
	return p
}

// drawOrder draws a topological order.
func drawOrder(t *rapid.T, p *Problem) []int32 {
	n := naive{p: p}
	ran := make([]bool, len(p.Nodes))
	var order []int32
	for len(order) < len(ran) {
		var ready []int32
		for v := range ran {
			if !ran[v] && n.ready(ran, int32(v)) {
				ready = append(ready, int32(v))
			}
		}
		v := rapid.SampledFrom(ready).Draw(t, "next")
		ran[v] = true
		order = append(order, v)
	}
	return order
}

func indices(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i)
	}
	return x
}

// relabelled returns the problem with node v at node[v] and tensor t at
// tensor[t] of the listing.
func relabelled(p *Problem, node, tensor []int32) *Problem {
	q := &Problem{Nodes: make([]Node, len(p.Nodes)), Tensors: make([]Tensor, len(p.Tensors))}
	for v, n := range p.Nodes {
		q.Nodes[node[v]] = n
	}
	for t, x := range p.Tensors {
		x.Consumers = slices.Clone(x.Consumers)
		for i, v := range x.Consumers {
			x.Consumers[i] = node[v]
		}
		x.Reuses = slices.Clone(x.Reuses)
		for i, r := range x.Reuses {
			x.Reuses[i] = tensor[r]
		}
		if x.Producer >= 0 {
			x.Producer = node[x.Producer]
		}
		q.Tensors[tensor[t]] = x
	}
	return q
}
