// Package precision puts a graph into 16 bits as torch.amp does: products compute in 16 bits,
// sums and norms in float32, and the rest in the widest type of its inputs (ops.Precision). It
// adds Cast nodes and nothing else: without them, the graph is the given one.
package precision

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Options say how a graph is put into 16 bits.
type Options struct {
	Type graph.DType    // Float16 or BFloat16
	Keep *regexp.Regexp // names of nodes and tensors that stay in float32; nil: none
	// Trains says that a training step is made of the model. Operators that two nodes spell out, such as
	// Swish, then are in float32 as well: their gradients would round many times.
	Trains bool
}

// Report says what was put into 16 bits.
type Report struct {
	Type  graph.DType
	Kept  []Kept // results of nodes that are float32, in the order of the nodes
	Casts []Cast // what the added nodes make, in the order of the nodes
}

// Cast is a tensor with the elements of another, in another type.
type Cast struct{ Tensor, Of string }

// Kept is a tensor that is float32, and why.
type Kept struct{ Tensor, Why string }

// caster is one run of Apply.
type caster struct {
	g       *graph.Graph
	opsets  []graph.Opset
	opt     Options
	values  []*ops.Value
	was     []bool                    // of each tensor of the given graph: it is a tensor of float32
	now     []graph.TensorID          // of each tensor of the given graph: the one that has its elements
	copies  map[copied]graph.TensorID // those in another type
	product map[graph.TensorID]bool   // tensors of the given graph that products make in 16 bits
	groups  map[*graph.Node]member
	names   map[string]bool
	nodes   []*graph.Node
	matched bool // Options.Keep matches something
	report  Report
}

// copied is a tensor of the given graph in another type.
type copied struct {
	of   graph.TensorID
	elem graph.DType
}

// Apply returns a copy of a model in 16 bits. The model has no local functions, and its
// inferred types; values are the folded elements of its tensors. Inputs, outputs and
// initializers keep their types.
func Apply(m *graph.Model, values []*ops.Value, opt Options) (*graph.Model, *Report, error) {
	g := m.Graph.Clone()
	order, err := g.Topological()
	if err != nil {
		return nil, nil, err
	}
	given := make([]*graph.Node, len(order))
	for i, n := range order {
		given[i] = g.Nodes[n]
	}
	c := &caster{
		g: g, opsets: m.Opsets, opt: opt, values: append(slices.Clone(values), make([]*ops.Value, max(0, len(g.Tensors)-len(values)))...),
		was: make([]bool, len(g.Tensors)), now: make([]graph.TensorID, len(g.Tensors)), copies: map[copied]graph.TensorID{},
		product: map[graph.TensorID]bool{}, names: map[string]bool{},
	}
	c.report.Type = opt.Type
	for i, t := range g.Tensors {
		c.now[i], c.was[i] = graph.TensorID(i), t.Type.Kind == graph.KindTensor && t.Type.Elem == graph.Float32
	}
	c.take(g)
	c.groups = findGroups(c, given)
	for _, n := range given {
		if err := c.node(n); err != nil {
			return nil, nil, err
		}
	}
	if opt.Keep != nil && !c.matched {
		return nil, nil, graph.Errorf("--keep: %q matches no node and no tensor: expected a pattern of their names", opt.Keep.String())
	}
	g.Nodes = c.nodes
	for _, n := range g.Nodes {
		if len(n.Bodies()) > 0 {
			n.SetCaptures()
		}
	}
	g.NameCaptures()
	g.Link()
	g.Span = graph.Span{}
	out := *m
	out.Graph, out.Props = g, slices.Clone(m.Props)
	return &out, &c.report, nil
}

// take notes the names that are in use, in bodies too: a name that a body makes would hide
// one of the outer graph.
func (c *caster) take(g *graph.Graph) {
	for _, t := range g.Tensors {
		c.names[t.Name] = true
	}
	for _, n := range g.Nodes {
		c.names[n.Name] = true
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				c.take(b)
			}
		}
	}
}

// unique returns a name that is not in use.
func (c *caster) unique(name string) string {
	try := name
	for i := 2; c.names[try]; i++ {
		try = fmt.Sprintf("%s_%d", name, i)
	}
	c.names[try] = true
	return try
}

// node puts one node into the type in which it computes.
func (c *caster) node(n *graph.Node) error {
	lead, version := c.lead(n), graph.FindOpset(c.opsets, n.Domain)
	why := c.why(n, lead, version)
	to := graph.Float32
	if why == "" {
		to = c.opt.Type
	}
	changed := len(n.Bodies()) > 0
	for i, t := range n.Inputs {
		if t < 0 {
			continue
		}
		u := c.now[t]
		if c.was[t] {
			u = c.as(t, c.input(n, i, lead, version, to))
		}
		changed = changed || u != t
		n.Inputs[i] = u
	}
	for _, a := range n.Bodies() {
		for _, b := range a.All() {
			for k, x := range b.Captures {
				if c.was[x.Outer] {
					b.Captures[k].Outer = c.as(x.Outer, graph.Float32)
				}
			}
			b.Span = graph.Span{}
		}
		a.Span = graph.Span{}
	}
	if changed {
		n.Span = graph.Span{}
	}
	c.nodes = append(c.nodes, n)
	if err := c.results(n, why, version); err != nil {
		return err
	}
	if m, grouped := c.groups[n]; grouped && m.last && c.elem(m.x) == c.opt.Type {
		c.now[n.Outputs[0]] = c.as(n.Outputs[0], c.opt.Type)
	}
	return nil
}

// input is the type in which a node that computes in type to reads input i, a float32 of the
// given graph.
func (c *caster) input(n *graph.Node, i, lead int, version int64, to graph.DType) graph.DType {
	switch {
	case lead < 0:
		return graph.Float32
	case ops.Alike(n, version, i, lead):
		return to
	case ops.Stands(n, i) || !ops.Permits(n, version, i, c.opt.Type):
		return graph.Float32
	case ops.PrecisionOf(n) == ops.Widest:
		return c.elem(n.Inputs[i])
	}
	return to
}

// as is a tensor of the given graph in a type: itself, or a cast that nodes share.
func (c *caster) as(t graph.TensorID, elem graph.DType) graph.TensorID {
	from := c.now[t]
	if c.g.Tensors[from].Type.Elem == elem {
		return from
	}
	if u, is := c.copies[copied{t, elem}]; is {
		return u
	}
	u := c.g.NewTensor(c.unique(fmt.Sprintf("%s.%v", c.g.Tensors[t].Name, elem)))
	c.g.Tensors[u].Type = c.g.Tensors[t].Type
	c.g.Tensors[u].Type.Elem = elem
	c.copies[copied{t, elem}] = u
	c.cast(from, u)
	return u
}

// cast adds the node that makes tensor u of tensor t.
func (c *caster) cast(t, u graph.TensorID) {
	name := c.g.Tensors[u].Name
	c.nodes = append(c.nodes, &graph.Node{
		Name: c.unique(name + ".cast"), Op: "Cast", Inputs: []graph.TensorID{t}, Outputs: []graph.TensorID{u},
		Attrs: []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(c.g.Tensors[u].Type.Elem)}},
	})
	c.report.Casts = append(c.report.Casts, Cast{name, c.g.Tensors[t].Name})
}

// results sets the types of what a node makes, and makes graph outputs of their given type.
func (c *caster) results(n *graph.Node, why string, version int64) error {
	if why == "" {
		in := make([]ops.Arg, len(n.Inputs))
		for i, t := range n.Inputs {
			if t >= 0 {
				in[i] = ops.Arg{Present: true, Type: c.g.Tensors[t].Type}
				if int(t) < len(c.values) {
					in[i].Value = c.values[t]
				}
			}
		}
		out, err := ops.Apply(n, version, in)
		if err != nil {
			return graph.Errorf("in %v: %w", c.opt.Type, err).AtNode(c.label(n))
		}
		for i, t := range n.Outputs {
			if t < 0 || !c.was[t] || out[i].Elem != c.opt.Type {
				continue
			}
			c.product[t] = c.class(n) == ops.Product
			u := t
			if c.g.Tensors[t].Output {
				u = c.g.NewTensor(c.unique(fmt.Sprintf("%s.%v", c.g.Tensors[t].Name, c.opt.Type)))
				c.g.Tensors[u].Type = c.g.Tensors[t].Type
				n.Outputs[i], n.Span = u, graph.Span{}
				c.copies[copied{t, graph.Float32}] = t
			} else {
				c.g.Tensors[t].Declared = nil
			}
			c.g.Tensors[u].Type.Elem = c.opt.Type
			if c.now[t] = u; u != t {
				c.cast(u, t)
			}
		}
	}
	for _, t := range n.Outputs {
		if why != "" && why != noFloat && t >= 0 && c.was[t] {
			c.report.Kept = append(c.report.Kept, Kept{c.g.Tensors[t].Name, why})
		}
	}
	return nil
}

func (c *caster) class(n *graph.Node) ops.Class {
	if op := ops.Lookup(n.Domain, n.Op); op != nil {
		return op.Class
	}
	return ops.Other
}

// label names a node in messages.
func (c *caster) label(n *graph.Node) string {
	return fmt.Sprintf("node %q (%s)", graph.Short(n.Name), n.OpName())
}

// elem is the type that the elements of a tensor of the given graph have now.
func (c *caster) elem(t graph.TensorID) graph.DType { return c.g.Tensors[c.now[t]].Type.Elem }
