package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// narrowAgain lets the backward pass narrow a tensor again that the forward pass narrowed to 16
// bits, where the backward pass reads the wider one anyway, as the gradient of a Softmax does that
// computes in float32: both would be kept for it. The copy has the same bits. A step without
// nodes that nothing reads is expected. It reports whether it changed one.
func (s *trainer) narrowAgain() bool {
	g := s.g
	if !s.saves(savingCast) {
		return false
	}
	later := func(n *graph.Node) bool {
		phase, _ := n.Prop(keyPhase)
		return phase == phaseBackward
	}
	reads := make([]bool, len(g.Tensors)) // in the backward pass
	first := map[ID]int{}                 // the first node there that reads a tensor itself
	for i, n := range g.Nodes {
		if !later(n) {
			continue
		}
		n.Reads(func(t ID) { reads[t] = true })
		for _, t := range n.Inputs {
			if _, has := first[t]; !has {
				first[t] = i
			}
		}
	}
	made := map[int][]*graph.Node{} // before these nodes
	again := map[ID]ID{}
	computed := map[ID]bool{} // by a node: a parameter stays anyway
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			computed[t] = true
		}
		if later(n) || !ops.Casts(n) {
			continue
		}
		from, to := n.Inputs[0], n.Outputs[0]
		at, read := first[to]
		if !read || !reads[from] || !computed[from] || !is16Bits(g.Tensors[to].Type.Elem) || is16Bits(g.Tensors[from].Type.Elem) {
			continue
		}
		name := s.unique(g.Tensors[to].Name + ".again")
		t := g.NewTensor(name)
		g.Tensors[t].Type = g.Tensors[to].Type
		c := &graph.Node{Name: s.unique(n.Name + ".again"), Op: n.Op, Inputs: []ID{from}, Outputs: []ID{t}, Attrs: n.Attrs}
		c.SetProp(keyPhase, phaseBackward)
		c.SetProp(keyOf, n.Name)
		made[at] = append(made[at], c)
		again[to] = t
	}
	if len(again) == 0 {
		return false
	}
	nodes := make([]*graph.Node, 0, len(g.Nodes)+len(again))
	for i, n := range g.Nodes {
		if later(n) {
			for k, t := range n.Inputs {
				if copied, has := again[t]; has {
					n.Inputs[k] = copied
				}
			}
		}
		nodes = append(append(nodes, made[i]...), n)
	}
	g.Nodes = nodes
	return true
}
