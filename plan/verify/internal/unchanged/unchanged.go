// Package unchanged proves of a planned file that every node which the plan did not add is a node
// of the source, with the same operator, attributes and operands, and that none is missing. Package
// lossless compares the bytes of fields, and knows nothing of what a plan may rewire; here the graphs
// are compared, without the nodes that run again and transfers, of which others prove that their
// results are those of the first runs.
//
// Nodes that folded constants and products replace are left to the prover of these. With slices, the
// prover of slices compares all nodes.
package unchanged

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/same"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "lossless"

// none is the index of no node and no tensor.
const none = subject.None

// Replaced are the tensors of a graph that the plan makes otherwise than the source.
type Replaced struct {
	Constants map[string]bool // initializers, or copies of one
	Products  map[string]bool // products that read a constant as it lies
}

// ReplacedBy returns what a plan makes otherwise: in the main graph, and in any of its bodies.
func ReplacedBy(f *plan.Folded) (main, bodies Replaced) {
	main = Replaced{map[string]bool{}, map[string]bool{}}
	bodies = Replaced{map[string]bool{}, map[string]bool{}}
	if f == nil {
		return main, bodies
	}
	in := func(subgraph *int) Replaced {
		if subgraph == nil {
			return main
		}
		return bodies
	}
	for _, x := range f.Tensors {
		r := in(x.Subgraph)
		if r.Constants[x.Tensor] = true; x.Of != "" {
			r.Constants[x.Of] = true
		}
	}
	for _, x := range f.Products {
		in(x.Subgraph).Products[x.Tensor] = true
	}
	return main, bodies
}

// Prove compares a planned main graph, without the nodes that run again and transfers, with that of
// the source. originals has, by tensor, the first tensor with its value; nil: none was made again.
func Prove(s *subject.Subject, planned *graph.Graph, originals []graph.TensorID) {
	c := &comparison{Subject: s, same: same.Node{}}
	c.main, c.bodies = ReplacedBy(s.Plan.Folded)
	if s.Model.Source != nil && s.Source.Source != nil {
		c.same.Source, c.same.Other = s.Model.Source.Bytes, s.Source.Source.Bytes
	}
	if wrong := c.graphs(nil, planned, s.Source.Graph, originals); wrong != "" {
		s.Fault(Code, "%s", wrong)
		return
	}
	for _, o := range s.Source.Opsets {
		if found := s.Model.Opset(o.Domain); found != o.Version {
			s.Fault(Code, "operators of domain %q: expected version %d, as in the source, found %d", graph.Short(o.Domain), o.Version, found)
		}
	}
	for _, f := range s.Model.Functions {
		if !f.Own() && !has(s.Source, f) {
			s.Fault(Code, "function %q: expected no function that the source lacks", graph.Short(f.Name))
		}
	}
}

// has reports whether a model has a function with the name of f.
func has(m *graph.Model, f *graph.Function) bool {
	for _, x := range m.Functions {
		if x.Domain == f.Domain && x.Name == f.Name && x.Overload == f.Overload {
			return true
		}
	}
	return false
}

// comparison is one run of Prove.
type comparison struct {
	*subject.Subject
	same         same.Node
	main, bodies Replaced
}

// pair is a planned graph and the source's.
type pair struct {
	outer    *pair // of a body: the graphs around it
	g, of    *graph.Graph
	names    [][]string // by tensor of g: further names that it has in the source; nil: none
	replaced Replaced

	capture, captureOf map[graph.TensorID]graph.TensorID // of a body: what its tensors are outside
}

// graphs says how a planned graph differs from the source's, "" if it does not.
func (c *comparison) graphs(outer *pair, g, of *graph.Graph, originals []graph.TensorID) string {
	p := &pair{outer: outer, g: g, of: of, replaced: c.main}
	if outer != nil {
		p.replaced, p.capture, p.captureOf = c.bodies, captured(g), captured(of)
	}
	p.name(originals)
	makers := make(map[string]graph.NodeID, len(of.Nodes))
	for i, n := range of.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				makers[of.Tensors[t].Name] = graph.NodeID(i)
			}
		}
	}
	if wrong := c.ends(p); wrong != "" {
		return wrong
	}
	taken := make([]bool, len(of.Nodes))
	for i, n := range g.Nodes {
		id := p.source(n, makers)
		switch {
		case subject.FirstOutput(n) == none: // it does nothing
			continue
		case id == none && len(p.replaced.Products) > 0: // around a product; what reads it is no other node
			continue
		case id == none:
			return fmt.Sprintf("%s: expected a node of the source, which has none that makes what it makes", g.Label(graph.NodeID(i)))
		case taken[id]:
			return fmt.Sprintf("%s: expected each node of the source once", g.Label(graph.NodeID(i)))
		}
		taken[id] = true
		if p.isReplaced(of.Nodes[id]) {
			continue
		}
		if wrong := c.node(p, n, of.Nodes[id]); wrong != "" {
			return fmt.Sprintf("%s: %s", g.Label(graph.NodeID(i)), wrong)
		}
	}
	for id, n := range of.Nodes {
		if !taken[id] && c.Plan.Folded == nil && subject.FirstOutput(n) != none { // else the prover of folded constants counts them
			return fmt.Sprintf("%s of the source is missing", of.Label(graph.NodeID(id)))
		}
	}
	return ""
}

// ends says how the outputs of a graph differ from those of the source's and, of a body, its inputs
// and initializers, whose bytes package lossless compares in the main graph.
func (c *comparison) ends(p *pair) string {
	if len(p.g.Outputs) != len(p.of.Outputs) {
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(p.of.Outputs), "output"), len(p.g.Outputs))
	}
	for k, t := range p.g.Outputs {
		if !p.is(t, p.of.Outputs[k]) {
			return fmt.Sprintf("output %d: expected %s, as in the source, found %s", k, label(p.of, p.of.Outputs[k]), label(p.g, t))
		}
	}
	if p.outer == nil {
		return ""
	}
	if len(p.g.Inputs) != len(p.of.Inputs) {
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(p.of.Inputs), "input"), len(p.g.Inputs))
	}
	for k, t := range p.g.Inputs {
		if !p.is(t, p.of.Inputs[k]) {
			return fmt.Sprintf("input %d: expected %s, as in the source, found %s", k, label(p.of, p.of.Inputs[k]), label(p.g, t))
		}
	}
	source := c.Tensors(p.of)
	for _, t := range p.g.Tensors {
		if old := source[t.Name]; t.Data != nil && old != nil && !p.replaced.Constants[t.Name] && !c.same.Data(t.Data, old.Data) {
			return fmt.Sprintf("initializer %q: expected that of the source, found another", graph.Short(t.Name))
		}
	}
	return ""
}

// captured returns what captures are outside.
func captured(g *graph.Graph) map[graph.TensorID]graph.TensorID {
	m := make(map[graph.TensorID]graph.TensorID, len(g.Captures))
	for _, c := range g.Captures {
		m[c.Inner] = c.Outer
	}
	return m
}

// name collects the names of tensors that several steps make: the last one has the name that
// the source has.
func (p *pair) name(originals []graph.TensorID) {
	for t, first := range originals {
		if graph.TensorID(t) != first {
			if p.names == nil {
				p.names = make([][]string, len(p.g.Tensors))
			}
			p.names[first] = append(p.names[first], p.g.Tensors[t].Name)
		}
	}
}

// source returns the node of the source that makes what a node makes, none if there is none.
func (p *pair) source(n *graph.Node, makers map[string]graph.NodeID) graph.NodeID {
	for _, t := range n.Outputs {
		if t < 0 {
			continue
		}
		if id, known := makers[p.g.Tensors[t].Name]; known {
			return id
		}
		if p.names == nil {
			continue
		}
		for _, name := range p.names[t] {
			if id, known := makers[name]; known {
				return id
			}
		}
	}
	return none
}

// isReplaced reports whether the plan makes what a node of the source makes by another one, which
// the prover of folded constants compares.
func (p *pair) isReplaced(n *graph.Node) bool {
	for _, t := range n.Outputs {
		if t >= 0 {
			if name := p.of.Tensors[t].Name; p.replaced.Constants[name] || p.replaced.Products[name] {
				return true
			}
		}
	}
	return false
}

// node says how a node differs from that of the source, "" if it does not.
func (c *comparison) node(p *pair, n, old *graph.Node) string {
	switch {
	case n.Op != old.Op || n.Domain != old.Domain || n.Overload != old.Overload:
		return fmt.Sprintf("expected operator %s, as in the source, found %s", old.OpName(), n.OpName())
	case len(n.Inputs) != len(old.Inputs):
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(old.Inputs), "input"), len(n.Inputs))
	case len(n.Outputs) > len(old.Outputs):
		return fmt.Sprintf("expected at most %s, as in the source, found %d", subject.Count(len(old.Outputs), "output"), len(n.Outputs))
	}
	for k, t := range n.Inputs {
		if !p.is(t, old.Inputs[k]) {
			return fmt.Sprintf("input %d: expected %s, as in the source, found %s", k, label(p.of, old.Inputs[k]), label(p.g, t))
		}
	}
	for k, of := range old.Outputs {
		if t := graph.TensorID(none); k < len(n.Outputs) {
			if t = n.Outputs[k]; t >= 0 && p.is(t, of) {
				continue
			}
		}
		if of >= 0 && (len(p.of.Tensors[of].Readers) > 0 || p.of.Tensors[of].Output) || k < len(n.Outputs) && n.Outputs[k] >= 0 {
			return fmt.Sprintf("output %d: expected %s, as in the source", k, label(p.of, of))
		}
	}
	return c.attributes(p, n, old)
}

// attributes says which attribute of a node differs, "" if none does.
func (c *comparison) attributes(p *pair, n, old *graph.Node) string {
	if len(n.Attrs) != len(old.Attrs) {
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(old.Attrs), "attribute"), len(n.Attrs))
	}
	for _, a := range n.Attrs {
		b := old.Attr(a.Name)
		if b == nil || a.Type != b.Type || len(a.All()) != len(b.All()) || len(a.All()) == 0 && !c.same.Attribute(a, b) {
			return fmt.Sprintf("attribute %q: expected that of the source, found another", graph.Short(a.Name))
		}
		for k, body := range a.All() {
			if wrong := c.graphs(p, body, b.All()[k], nil); wrong != "" {
				return fmt.Sprintf("attribute %q: %s", graph.Short(a.Name), wrong)
			}
		}
	}
	return ""
}

// is reports whether a tensor is one of the source: it has its name, or a step that makes it again
// has. A capture is what it is outside.
func (p *pair) is(t, of graph.TensorID) bool {
	if t < 0 || of < 0 {
		return t < 0 && of < 0
	}
	if outside, captures := p.capture[t]; captures && p.outer != nil {
		outsideOf, both := p.captureOf[of]
		return both && p.outer.is(outside, outsideOf)
	}
	name := p.of.Tensors[of].Name
	if p.g.Tensors[t].Name == name {
		return true
	}
	if p.names != nil {
		for _, x := range p.names[t] {
			if x == name {
				return true
			}
		}
	}
	return false
}

func label(g *graph.Graph, t graph.TensorID) string {
	if t < 0 {
		return "none"
	}
	return fmt.Sprintf("%q", graph.Short(g.Tensors[t].Name))
}
