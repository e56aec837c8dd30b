package graph

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// NewTensor adds a tensor without a maker or readers.
func (g *Graph) NewTensor(name string) TensorID {
	g.Tensors = append(g.Tensors, &Tensor{Name: name, Maker: None})
	return TensorID(len(g.Tensors) - 1)
}

// Tensor returns the tensor with that index, nil for None.
func (g *Graph) Tensor(t TensorID) *Tensor {
	if t < 0 {
		return nil
	}
	return g.Tensors[t]
}

// Reads calls f for every tensor that node n reads: its inputs, then the captures
// of its bodies. A tensor may occur more than once.
func (n *Node) Reads(f func(TensorID)) {
	for _, t := range n.Inputs {
		if t >= 0 {
			f(t)
		}
	}
	for _, t := range n.Captures {
		f(t)
	}
}

// Link sets the fields of tensors that follow from the graph: Maker, Out and
// Readers from the nodes, Input and Output from the graph's lists. No two nodes
// may make the same tensor.
func (g *Graph) Link() {
	for _, t := range g.Tensors {
		t.Maker, t.Out, t.Readers, t.Input, t.Output = None, 0, nil, false, false
	}
	for _, t := range g.Inputs {
		g.Tensors[t].Input = true
	}
	for _, t := range g.Outputs {
		g.Tensors[t].Output = true
	}
	for i, n := range g.Nodes {
		for k, t := range n.Outputs {
			if t >= 0 {
				g.Tensors[t].Maker, g.Tensors[t].Out = NodeID(i), k
			}
		}
		n.Reads(func(t TensorID) {
			r := g.Tensors[t].Readers
			if len(r) == 0 || r[len(r)-1] != NodeID(i) {
				g.Tensors[t].Readers = append(r, NodeID(i))
			}
		})
	}
}

// Topological returns a topological order of g's nodes: program order if it is
// topological, else the order that always takes the ready node with the smallest
// index. A cycle is an error of type *CycleError. It takes O(E + V log V) time.
func (g *Graph) Topological() ([]NodeID, error) {
	waiting := make([]int32, len(g.Nodes))
	sorted := true
	seen := make([]NodeID, len(g.Tensors)) // the last node that read a tensor, counted from 1
	for i, n := range g.Nodes {
		n.Reads(func(t TensorID) {
			if m := g.Tensors[t].Maker; m >= 0 {
				if seen[t] != NodeID(i+1) {
					seen[t] = NodeID(i + 1)
					waiting[i]++
				}
				if m >= NodeID(i) {
					sorted = false
				}
			}
		})
	}
	order := make([]NodeID, 0, len(g.Nodes))
	if sorted {
		for i := range g.Nodes {
			order = append(order, NodeID(i))
		}
		return order, nil
	}
	var ready idHeap
	for i := range g.Nodes {
		if waiting[i] == 0 {
			ready.push(NodeID(i))
		}
	}
	for len(ready) > 0 {
		i := ready.pop()
		order = append(order, i)
		for _, t := range g.Nodes[i].Outputs {
			if t < 0 {
				continue
			}
			for _, r := range g.Tensors[t].Readers {
				if waiting[r]--; waiting[r] == 0 {
					ready.push(r)
				}
			}
		}
	}
	if len(order) < len(g.Nodes) {
		return nil, g.findCycle(waiting)
	}
	return order, nil
}

// CycleError reports nodes that depend on each other.
type CycleError struct {
	Nodes []string // the cycle, in the form of messages; the first node is not repeated
}

// Error prints the cycle, or the ends of a long one.
func (e *CycleError) Error() string {
	names := e.Nodes
	gap := ""
	if len(names) > 6 {
		gap = fmt.Sprintf(" -> … %d more … ", len(names)-4)
	}
	var b strings.Builder
	b.WriteString("nodes form a cycle: ")
	for i, n := range names {
		if gap != "" && i == 2 {
			b.WriteString(gap)
		}
		if gap != "" && i >= 2 && i < len(names)-2 {
			continue
		}
		if i > 0 && (gap == "" || i != len(names)-2) {
			b.WriteString(" -> ")
		} else if i > 0 {
			b.WriteString("-> ")
		}
		b.WriteString(n)
	}
	b.WriteString(" -> " + names[0])
	return b.String()
}

// findCycle walks from a waiting node back through waiting makers until a node
// occurs again.
func (g *Graph) findCycle(waiting []int32) error {
	start := slices.IndexFunc(waiting, func(w int32) bool { return w > 0 })
	place := map[NodeID]int{}
	var path []NodeID
	for at := NodeID(start); ; {
		if from, seen := place[at]; seen {
			path = path[from:]
			break
		}
		place[at] = len(path)
		path = append(path, at)
		next := NodeID(None)
		g.Nodes[at].Reads(func(t TensorID) {
			if m := g.Tensors[t].Maker; next < 0 && m >= 0 && waiting[m] > 0 {
				next = m
			}
		})
		at = next
	}
	slices.Reverse(path)
	// Start at the node with the smallest index, so that the message does not
	// depend on the start of the walk.
	least := 0
	for i, n := range path {
		if n < path[least] {
			least = i
		}
	}
	e := &CycleError{}
	for i := range path {
		n := path[(least+i)%len(path)]
		if name := g.Nodes[n].Name; name != "" {
			e.Nodes = append(e.Nodes, fmt.Sprintf("%q", Short(name)))
		} else {
			e.Nodes = append(e.Nodes, fmt.Sprintf("node %d (%s)", n, g.Nodes[n].OpName()))
		}
	}
	return e
}

// Reorder puts the nodes of g into the given order, a permutation of their
// indices, and links the graph again.
func (g *Graph) Reorder(order []NodeID) {
	nodes := make([]*Node, len(order))
	for i, n := range order {
		nodes[i] = g.Nodes[n]
	}
	g.Nodes = nodes
	g.Link()
}

// Clone copies g with its nodes, tensors, attributes and bodies, so that
// inference on the copy does not change g. Data and declared types are shared.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Inputs, c.Outputs, c.Captures = slices.Clone(g.Inputs), slices.Clone(g.Outputs), slices.Clone(g.Captures)
	c.Nodes = make([]*Node, len(g.Nodes))
	for i, n := range g.Nodes {
		m := *n
		m.Attrs = make([]*Attr, len(n.Attrs))
		for k, a := range n.Attrs {
			m.Attrs[k] = a.Clone()
		}
		m.Props = slices.Clone(n.Props)
		m.Inputs, m.Outputs, m.Captures = slices.Clone(n.Inputs), slices.Clone(n.Outputs), slices.Clone(n.Captures)
		c.Nodes[i] = &m
	}
	c.Tensors = make([]*Tensor, len(g.Tensors))
	for i, t := range g.Tensors {
		u := *t
		c.Tensors[i] = &u
	}
	return &c
}

// Clone copies a with its graphs; the rest is shared.
func (a *Attr) Clone() *Attr {
	if a.Graph == nil && a.Graphs == nil {
		b := *a
		return &b
	}
	b := *a
	if a.Graph != nil {
		b.Graph = a.Graph.Clone()
	}
	b.Graphs = nil
	for _, g := range a.Graphs {
		b.Graphs = append(b.Graphs, g.Clone())
	}
	return &b
}

// SetCaptures collects the tensors that the node's bodies capture.
func (n *Node) SetCaptures() {
	n.Captures = n.Captures[:0]
	for _, a := range n.Bodies() {
		for _, g := range a.All() {
			for _, c := range g.Captures {
				n.Captures = append(n.Captures, c.Outer)
			}
		}
	}
	sort.Slice(n.Captures, func(i, j int) bool { return n.Captures[i] < n.Captures[j] })
	n.Captures = slices.Compact(n.Captures)
}

// idHeap is a binary heap of node indices, smallest first.
type idHeap []NodeID

func (h *idHeap) push(n NodeID) {
	a := append(*h, n)
	for i := len(a) - 1; i > 0; {
		p := (i - 1) / 2
		if a[p] <= a[i] {
			break
		}
		a[p], a[i] = a[i], a[p]
		i = p
	}
	*h = a
}

func (h *idHeap) pop() NodeID {
	a := *h
	top, last := a[0], len(a)-1
	a[0] = a[last]
	a = a[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(a) {
			break
		}
		if c+1 < len(a) && a[c+1] < a[c] {
			c++
		}
		if a[i] <= a[c] {
			break
		}
		a[i], a[c] = a[c], a[i]
		i = c
	}
	*h = a
	return top
}

// DropTensors removes the tensors for which gone is true. No node, capture, input
// or output may refer to them. Indices of other tensors change.
func (g *Graph) DropTensors(gone func(TensorID) bool) {
	to := make([]TensorID, len(g.Tensors))
	kept := g.Tensors[:0:0]
	for i, t := range g.Tensors {
		to[i] = None
		if !gone(TensorID(i)) {
			to[i] = TensorID(len(kept))
			kept = append(kept, t)
		}
	}
	g.Tensors = kept
	move := func(list []TensorID) {
		for i, t := range list {
			if t >= 0 {
				list[i] = to[t]
			}
		}
	}
	move(g.Inputs)
	move(g.Outputs)
	for i := range g.Captures {
		g.Captures[i].Inner = to[g.Captures[i].Inner]
	}
	for _, n := range g.Nodes {
		move(n.Inputs)
		move(n.Outputs)
		move(n.Captures)
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				for i := range b.Captures {
					b.Captures[i].Outer = to[b.Captures[i].Outer]
				}
			}
		}
	}
}
