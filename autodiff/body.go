package autodiff

import (
	"maps"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// body emits the nodes of a body of a control-flow node (Scan, If).
type body struct {
	*emitter
	outer *emitter
	inner map[ID]ID // maps tensors of the outer graph to those of the body that capture them
}

// newBody returns an empty body whose names differ from those of the outer graph.
func (e *emitter) newBody(name string) *body {
	b := newEmitter(&graph.Graph{Name: e.unique(e.scope + name)}, e.opsets, nil)
	b.taken, b.salt, b.saving, b.waiting, b.fused = e.taken, e.salt, e.saving, e.waiting, e.fused
	b.phase, b.of, b.scope = e.phase, e.of, e.scope
	return &body{emitter: b, outer: e, inner: map[ID]ID{}}
}

// input adds an input.
func (b *body) input(name string, t graph.Type) ID {
	id := b.newTensor(b.unique(b.scope+name), t, nil)
	b.g.Inputs = append(b.g.Inputs, id)
	return id
}

// capture returns the body's tensor for one of the outer graph.
func (b *body) capture(t ID) ID {
	if t == graph.None {
		return t
	}
	id, there := b.inner[t]
	if !there {
		id = b.newTensor(b.outer.g.Tensors[t].Name, b.outer.typeOf(t), b.outer.values[t])
		b.g.Tensors[id].Capture = true
		b.inner[t] = id
		b.g.Captures = append(b.g.Captures, graph.Capture{Inner: id, Outer: t})
	}
	return id
}

// copyOf emits the nodes of another body of the same outer graph. inputs are the
// tensors that stand for its inputs. It returns the nodes in a topological order and
// the tensor for each tensor of from.
func (b *body) copyOf(from *graph.Graph, inputs []ID) (nodes []*graph.Node, to map[ID]ID) {
	to = map[ID]ID{graph.None: graph.None}
	for i, t := range from.Inputs {
		to[t] = inputs[i]
	}
	for _, c := range from.Captures {
		to[c.Inner] = b.capture(c.Outer)
	}
	order, err := from.Topological()
	if err != nil {
		b.fail(err)
		return nil, to
	}
	for i, t := range from.Tensors {
		if t.Data != nil {
			to[ID(i)] = b.initializer(t)
		}
	}
	for _, k := range order {
		n := from.Nodes[k]
		c := &graph.Node{Name: b.unique(b.scope + n.Name), Op: n.Op, Domain: n.Domain}
		b.mark(c)
		for _, t := range n.Inputs {
			c.Inputs = append(c.Inputs, to[t])
		}
		for _, t := range n.Outputs {
			if t == graph.None {
				c.Outputs = append(c.Outputs, t)
				continue
			}
			id := b.newTensor(b.unique(b.scope+from.Tensors[t].Name), from.Tensors[t].Type, nil)
			to[t] = id
			c.Outputs = append(c.Outputs, id)
		}
		for _, a := range n.Attrs {
			a = a.Clone()
			for _, g := range a.All() {
				for i := range g.Captures {
					g.Captures[i].Outer = to[g.Captures[i].Outer]
				}
			}
			c.Attrs = append(c.Attrs, a)
		}
		c.SetCaptures()
		b.g.Nodes = append(b.g.Nodes, c)
		nodes = append(nodes, c)
		if len(c.Bodies()) == 0 && ops.Lookup(c.Domain, c.Op) != nil && !b.infer(c) {
			return nil, to
		}
	}
	return nodes, to
}

// initializer copies an initializer of another body.
func (b *body) initializer(t *graph.Tensor) ID {
	name := b.unique(b.scope + t.Name)
	d := *t.Data
	d.Name, d.Span = name, graph.Span{}
	id := b.newTensor(name, t.Type, nil)
	b.g.Tensors[id].Data = &d
	b.values[id] = valueOf(t.Data, b.version)
	return id
}

// finish sets the outputs and removes what they do not need, also inputs other than
// those that stay. It reports which of the inputs are left. The body's tensors have
// other numbers then.
func (b *body) finish(outputs []ID, stay ...ID) (kept []bool) {
	// An output is made by a node, and by no other: a runtime may hand over its memory.
	inputs := map[ID]bool{}
	for _, t := range b.g.Inputs {
		inputs[t] = true
	}
	seen := map[ID]bool{}
	for k, t := range outputs {
		if t == graph.None {
			continue
		}
		if seen[t] || inputs[t] || b.g.Tensors[t].Data != nil || slices.ContainsFunc(b.g.Captures, func(c graph.Capture) bool { return c.Inner == t }) {
			outputs[k] = b.op("Identity", t)
		}
		seen[outputs[k]] = true
	}
	if b.err != nil {
		b.outer.fail(b.err)
	}
	if b.outer.err != nil { // of the body, or of the gradients in it: some outputs may not be there
		return make([]bool, len(b.g.Inputs))
	}
	needed := neededBy(b.g, slices.Concat(outputs, stay))
	var left []ID
	for _, t := range b.g.Inputs {
		kept = append(kept, needed[t])
		if needed[t] {
			left = append(left, t)
		}
	}
	b.g.Inputs = left
	for _, list := range [][]ID{left, outputs} {
		for _, t := range list {
			x := b.g.Tensors[t]
			x.Declared = &graph.Declared{Type: x.Type, Symbols: make([]string, len(x.Type.Shape))}
		}
	}
	trimBody(b.g, outputs)
	for _, n := range b.g.Nodes {
		n.SetCaptures()
	}
	return kept
}

// neededBy returns the tensors on which some tensors of a body depend, with these. The
// nodes must be in a topological order.
func neededBy(g *graph.Graph, tensors []ID) map[ID]bool {
	needed := map[ID]bool{}
	for _, t := range tensors {
		needed[t] = true
	}
	for _, n := range slices.Backward(g.Nodes) {
		if makes(n, needed) {
			n.Reads(func(t ID) { needed[t] = true })
		}
	}
	return needed
}

// makes reports whether a node makes one of the tensors.
func makes(n *graph.Node, tensors map[ID]bool) bool {
	return slices.ContainsFunc(n.Outputs, func(t ID) bool { return tensors[t] })
}

// trimBody gives a body other outputs and removes the nodes that these do not need.
func trimBody(g *graph.Graph, outputs []ID) {
	needed := neededBy(g, slices.Concat(g.Inputs, outputs))
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return !makes(n, needed) })
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			needed[t] = true // stays, though nothing may read it
		}
	}
	g.Outputs, g.Span = outputs, graph.Span{}
	g.Captures = slices.DeleteFunc(g.Captures, func(c graph.Capture) bool { return !needed[c.Inner] })
	g.DropTensors(func(t ID) bool { return !needed[t] })
	g.Link()
}

// emitBody adds a control-flow node with bodies. Its outputs have the given types.
func (e *emitter) emitBody(op string, list []*graph.Attr, bodies map[string]*graph.Graph, types []graph.Type, in ...ID) []ID {
	out := make([]ID, len(types))
	for k := range out {
		out[k] = graph.None
	}
	if e.err != nil {
		return out
	}
	n := &graph.Node{Name: e.unique(e.scope + op), Op: op, Inputs: slices.Clone(in), Outputs: out, Attrs: list}
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		n.Attrs = append(n.Attrs, &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: bodies[name]})
	}
	e.mark(n)
	for k, t := range types {
		name := n.Name
		if k > 0 {
			name = e.unique(n.Name + "." + strconv.Itoa(k))
		}
		out[k] = e.newTensor(name, t, nil)
		e.makers[out[k]] = n
	}
	n.SetCaptures()
	e.g.Nodes = append(e.g.Nodes, n)
	return slices.Clone(out)
}
