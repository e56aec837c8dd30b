package schedule

import (
	"fmt"
	"math/rand/v2"
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

// layered makes a random network: each node reads up to three tensors of the
// 64 nodes before it, a third of the nodes may write over an input.
func layered(n int) *Problem {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	p := &Problem{Nodes: make([]Node, n)}
	p.Tensors = append(p.Tensors, Tensor{Name: "x", Bytes: 1 << 16, Producer: -1})
	for v := range n {
		o := int32(len(p.Tensors))
		x := Tensor{Bytes: 1 << (8 + r.IntN(8)), Producer: int32(v), Output: v == n-1}
		for range 1 + r.IntN(3) {
			in := max(0, o-1-int32(r.IntN(64)))
			p.Tensors[in].Consumers = append(p.Tensors[in].Consumers, int32(v))
			if r.IntN(3) == 0 {
				x.Reuses = append(x.Reuses, in)
			}
		}
		p.Tensors = append(p.Tensors, x)
	}
	return p
}

// transformer makes one training step of about n nodes: blocks of attention and
// feed-forward, their gradients in the order of backpropagation, and all
// updates at the end, each of which frees one gradient.
func transformer(n int) *Problem {
	const width = 1 << 20
	p := &Problem{}
	tensor := func(kind string, bytes int64, producer int32) int32 {
		p.Tensors = append(p.Tensors, Tensor{Name: fmt.Sprint(kind, len(p.Tensors)), Bytes: bytes, Producer: producer, Kind: kind})
		return int32(len(p.Tensors) - 1)
	}
	node := func(op string, bytes int64, reuse bool, read ...int32) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{Op: op})
		for _, t := range read {
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		o := tensor("activation", bytes, v)
		if reuse {
			p.Tensors[o].Reuses = Reuses(read)
		}
		return o
	}
	type layer struct{ weight, read, made int32 }
	var layers []layer
	linear := func(x int32, bytes int64) int32 {
		w := tensor("parameter", width, -1)
		p.Tensors[w].Resident = true
		y := node("MatMul", bytes, false, x, w)
		layers = append(layers, layer{w, x, y})
		return y
	}
	h := tensor("input", width, -1)
	for len(p.Nodes)*3 < n {
		q, k, v := linear(h, width), linear(h, width), linear(h, width)
		scores := node("Softmax", 4*width, true, node("MatMul", 4*width, false, q, k))
		h = node("Add", width, true, h, linear(node("MatMul", width, false, scores, v), width))
		up := node("Gelu", 4*width, true, linear(h, 4*width))
		h = node("Add", width, true, h, linear(up, width))
	}
	grad := node("Loss", width, false, h)
	type update struct{ weight, grad int32 }
	var updates []update
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		updates = append(updates, update{l.weight, node("WeightGrad", width, false, grad, l.read)})
		grad = node("InputGrad", p.Tensors[l.read].Bytes, true, grad, l.weight)
		grad = node("GeluGrad", width, false, grad, l.made)
	}
	for _, u := range updates {
		node("Update", 0, false, u.weight, u.grad)
	}
	return p
}

// recurrent makes one training step of an unrolled recurrent network of about n
// nodes: every step makes a gradient of the one weight, as large as all its
// activations, and adds it to the sum of those of later steps.
func recurrent(n int) *Problem {
	const width, weight = 1 << 12, 1 << 20
	p := &Problem{}
	tensor := func(bytes int64, producer int32) int32 {
		p.Tensors = append(p.Tensors, Tensor{Bytes: bytes, Producer: producer})
		return int32(len(p.Tensors) - 1)
	}
	node := func(op string, read ...int32) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{Op: op})
		for _, t := range read {
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		return v
	}
	type step struct{ hidden, gates, cell int32 }
	var steps []step
	hidden, cell := tensor(width, -1), tensor(width, -1)
	for 7*len(steps) < n {
		gates := tensor(4*width, node("Linear", hidden, tensor(width, -1)))
		steps = append(steps, step{hidden, gates, cell})
		cell = tensor(width, node("Cell", gates, cell))
		hidden = tensor(width, node("Output", gates, cell))
	}
	grad := tensor(width, node("Loss", hidden))
	sum := int32(-1)
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		gates := tensor(4*width, node("CellGrad", grad, s.gates, s.cell))
		g := tensor(weight, node("WeightGrad", gates, s.hidden))
		if sum >= 0 {
			v := node("Add", sum, g)
			p.Tensors = append(p.Tensors, Tensor{Bytes: weight, Producer: v, Reuses: Reuses{sum, g}})
			g = int32(len(p.Tensors) - 1)
		}
		sum = g
		grad = tensor(width, node("InputGrad", gates))
	}
	node("Update", sum)
	return p
}
