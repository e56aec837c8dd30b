package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// forwardBodies expands nodes in the bodies of a node, as forward does in the graph. Other
// bodies stay as they are. Training modes do not change there: a body is computed again in
// the backward pass, and would draw other random numbers.
func (s *trainer) forwardBodies(n *graph.Node) error {
	for _, a := range n.Bodies() {
		for _, g := range a.All() {
			if !expandable(g) || g.NeverRuns != "" { // nothing in a body that never runs has a type
				continue
			}
			changed, err := s.forwardBody(g)
			if err != nil {
				return err
			}
			if changed {
				a.Span, n.Span = graph.Span{}, graph.Span{}
			}
		}
	}
	n.SetCaptures()
	return nil
}

// expandable reports whether a body, or one within it, has a node that may be expanded.
func expandable(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		if expansions[ruleKey{n.Domain, n.Op}] != nil {
			return true
		}
		return slices.ContainsFunc(n.Bodies(), func(a *graph.Attr) bool { return slices.ContainsFunc(a.All(), expandable) })
	})
}

// forwardBody expands the nodes of one body, and reports whether it changed any.
func (s *trainer) forwardBody(g *graph.Graph) (changed bool, err error) {
	order, err := g.Topological()
	if err != nil {
		return false, err
	}
	outer, weighted, inBody := s.emitter, s.weighted, s.inBody
	defer func() { s.emitter, s.weighted, s.inBody = outer, weighted, inBody }()
	b := newEmitter(g, outer.opsets, make([]*ops.Value, len(g.Tensors)))
	for _, t := range g.Tensors {
		outer.taken[t.Name]++
	}
	b.taken, b.salt, b.saving, b.openDims = outer.taken, outer.salt, outer.saving, outer.openDims
	for id, t := range g.Tensors {
		if t.Data != nil {
			b.values[id] = valueOf(t.Data, b.version)
		}
	}
	for _, c := range g.Captures {
		b.values[c.Inner] = outer.values[c.Outer]
	}
	s.emitter, s.inBody = b, true
	nodes := g.Nodes
	g.Nodes = make([]*graph.Node, 0, len(nodes))
	s.weighted = s.weightedLoops(nodes, order)
	for _, k := range order {
		n := nodes[k]
		before := n.Span
		if err := s.forwardBodies(n); err != nil {
			return false, err
		}
		changed = changed || n.Span != before
		s.of = n.Name
		emitted := len(g.Nodes)
		if s.readSequence(n); len(g.Nodes) > emitted {
			changed = true
		}
		if f := expansions[ruleKey{n.Domain, n.Op}]; f != nil && s.expands(n) {
			s.expandNode(n, f)
			changed = true
		} else {
			b.fold(n)
			g.Nodes = append(g.Nodes, n)
		}
		if s.err != nil {
			return false, s.err
		}
	}
	s.of = ""
	if changed {
		g.Span = graph.Span{}
		dropUnmade(g)
	} else {
		g.Nodes = nodes
	}
	g.Link()
	return changed, nil
}

// dropUnmade removes from a body the tensors that have come to stand for nothing: those of an
// expansion's results, which have the names of the node's outputs now, and of what those
// outputs no longer have. A file has no such tensors, so a plan must not list them.
func dropUnmade(g *graph.Graph) {
	stays := make([]bool, len(g.Tensors))
	for id, t := range g.Tensors {
		stays[id] = t.Data != nil || t.Capture
	}
	keep := func(list []ID) {
		for _, t := range list {
			if t != graph.None {
				stays[t] = true
			}
		}
	}
	keep(g.Inputs)
	keep(g.Outputs)
	for _, n := range g.Nodes {
		n.Reads(func(t ID) { stays[t] = true })
		keep(n.Outputs)
	}
	g.DropTensors(func(t ID) bool { return !stays[t] })
}

// valueOf folds a constant.
func valueOf(d *graph.Data, version int64) *ops.Value {
	n := &graph.Node{Op: "Constant", Outputs: []ID{0}, Attrs: attrs{"value": d}.list()}
	made, err := ops.Apply(n, version, nil)
	if err != nil {
		return nil
	}
	return made[0].Value
}

// fold sets the values of the outputs of a node where they are known.
func (e *emitter) fold(n *graph.Node) {
	if len(n.Bodies()) > 0 || ops.Lookup(n.Domain, n.Op) == nil {
		return
	}
	in := make([]ops.Arg, len(n.Inputs))
	for i, t := range n.Inputs {
		if t != graph.None {
			in[i] = ops.Arg{Present: true, Type: e.g.Tensors[t].Type, Value: e.values[t]}
		}
	}
	made, err := ops.Apply(n, graph.FindOpset(e.opsets, n.Domain), in)
	for k, t := range n.Outputs {
		if err == nil && t != graph.None {
			e.values[t] = made[k].Value
		}
	}
}
