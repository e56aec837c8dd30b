package same

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// none is the index of no tensor and no node.
const none = -1

// pairing pairs the tensors and nodes of two bodies, one with one. What is paired is taken to
// be the same until it has been compared, so each pair is compared once, and the work is linear
// but for nodes that nothing reads.
type pairing struct {
	s        Node
	g, h     *graph.Graph
	to, from []graph.TensorID                     // of the tensors of g and of h: the partner; none: not known yet
	node     []graph.NodeID                       // of the nodes of g: the partner; none: not known yet
	taken    []bool                               // of the nodes of h
	outer    [2]map[graph.TensorID]graph.TensorID // of captures: the tensor outside
	open     []graph.NodeID                       // nodes of g that are paired, but not compared yet
	tensor   []graph.TensorID                     // tensors of g in the order in which they were paired
	made     []graph.NodeID                       // and nodes
}

func newPairing(s Node, g, h *graph.Graph) *pairing {
	p := &pairing{
		s: s, g: g, h: h, to: slices.Repeat([]graph.TensorID{none}, len(g.Tensors)), from: slices.Repeat([]graph.TensorID{none}, len(h.Tensors)),
		node: slices.Repeat([]graph.NodeID{none}, len(g.Nodes)), taken: make([]bool, len(h.Nodes)),
	}
	for i, list := range [][]graph.Capture{g.Captures, h.Captures} {
		p.outer[i] = make(map[graph.TensorID]graph.TensorID, len(list))
		for _, c := range list {
			p.outer[i][c.Inner] = c.Outer
		}
	}
	return p
}

// tensors pairs two tensors, and the nodes that make them. It reports whether they may be
// the same.
func (p *pairing) tensors(a, b graph.TensorID) bool {
	if a < 0 || b < 0 {
		return a < 0 && b < 0
	}
	if p.to[a] != none || p.from[b] != none {
		return p.to[a] == b
	}
	x, y := p.g.Tensors[a], p.h.Tensors[b]
	m, n := x.Maker, y.Maker
	if (m < 0) != (n < 0) || x.Input != y.Input {
		return false
	}
	p.to[a], p.from[b] = b, a
	p.tensor = append(p.tensor, a)
	if m >= 0 {
		return x.Out == y.Out && p.nodes(m, n)
	}
	outer1, captured1 := p.outer[0][a]
	outer2, captured2 := p.outer[1][b]
	if captured1 || captured2 {
		return captured1 && captured2 && p.s.Outer(outer1, outer2)
	}
	return p.s.Data(x.Data, y.Data)
}

// nodes pairs two nodes.
func (p *pairing) nodes(m, n graph.NodeID) bool {
	if p.node[m] != none || p.taken[n] {
		return p.node[m] == n
	}
	p.node[m], p.taken[n] = n, true
	p.made = append(p.made, m)
	p.open = append(p.open, m)
	return true
}

// settle compares the nodes that are paired and what they read. It reports whether they are
// the same.
func (p *pairing) settle() bool {
	inner := Node{p.s.Source, p.s.Other, p.tensors}
	for len(p.open) > 0 {
		v := p.open[len(p.open)-1]
		p.open = p.open[:len(p.open)-1]
		n, m := p.g.Nodes[v], p.h.Nodes[p.node[v]]
		if n.Op != m.Op || n.Domain != m.Domain || n.Overload != m.Overload ||
			!slices.EqualFunc(n.Outputs, m.Outputs, p.tensors) || !slices.EqualFunc(n.Inputs, m.Inputs, p.tensors) || inner.Attributes(n, m) != "" {
			return false
		}
	}
	return true
}

// unread pairs what no output needs: each node whose results nothing reads with one of the
// other body. It tries the nodes that make tensors of the same name first, the others in their
// order, and does not go back on what it found.
func (p *pairing) unread() bool {
	byName := make(map[string]graph.NodeID, len(p.h.Tensors))
	for _, t := range p.h.Tensors {
		if t.Maker >= 0 {
			byName[t.Name] = t.Maker
		}
	}
	for v := len(p.g.Nodes) - 1; v >= 0; v-- { // readers before what they read
		if p.node[v] != none {
			continue
		}
		found := false
		if k := subject.FirstOutput(p.g.Nodes[v]); k != none {
			if n, known := byName[p.g.Tensors[p.g.Nodes[v].Outputs[k]].Name]; known {
				found = p.try(graph.NodeID(v), n)
			}
		}
		for n := len(p.h.Nodes) - 1; n >= 0 && !found; n-- {
			found = p.try(graph.NodeID(v), graph.NodeID(n))
		}
		if !found {
			return false
		}
	}
	return true
}

// try pairs two nodes and what they read if they are the same. It reports whether they are.
func (p *pairing) try(v, n graph.NodeID) bool {
	if p.taken[n] {
		return false
	}
	tensors, nodes := len(p.tensor), len(p.made)
	if p.nodes(v, n) && p.settle() {
		return true
	}
	p.open = p.open[:0]
	for _, t := range p.tensor[tensors:] {
		p.from[p.to[t]] = none
		p.to[t] = none
	}
	for _, m := range p.made[nodes:] {
		p.taken[p.node[m]] = false
		p.node[m] = none
	}
	p.tensor, p.made = p.tensor[:tensors], p.made[:nodes]
	return false
}

// initializers pairs the constants that nothing reads, in their order.
func (p *pairing) initializers() bool {
	list := func(g *graph.Graph, partner []graph.TensorID) (list []graph.TensorID) {
		for id, t := range g.Tensors {
			if t.Data != nil && partner[id] == none {
				list = append(list, graph.TensorID(id))
			}
		}
		return list
	}
	return slices.EqualFunc(list(p.g, p.to), list(p.h, p.from), p.tensors)
}
