package graph

import (
	"slices"
)

// maxInlined limits the nodes and tensors that Inline adds: nested calls
// multiply.
const maxInlined = 1_000_000

// Inline returns a model in which every call of a local function, also in
// control-flow bodies, is replaced by the nodes of the function's body. New names
// are CALL/NAME, after the call. Attributes of the call, or their defaults,
// replace references in the body; nodes inherit metadata entries of the call that
// they do not have. m does not change; if it has no local functions, Inline
// returns it. Errors are of type *Error.
func Inline(m *Model) (*Model, error) {
	if len(m.Functions) == 0 {
		return m, nil
	}
	in := &inliner{functions: map[callee]*Function{}, opsets: slices.Clone(m.Opsets), taken: names{}}
	for _, f := range m.Functions {
		id := callee{f.Domain, f.Name, f.Overload}
		if in.functions[id] == nil {
			in.functions[id] = f
		}
	}
	out := *m
	out.Graph = m.Graph.Clone()
	in.taken.note(out.Graph)
	if _, err := in.graph(out.Graph); err != nil {
		return nil, err
	}
	out.Graph.NameCaptures()
	out.Graph.Span = Span{} // it is encoded again, since its model has other imports
	out.Functions, out.Opsets = nil, in.opsets
	out.IRVersion = max(m.IRVersion, 8) // the version of all that onnxmem writes; since 4, initializers need not be inputs
	return &out, nil
}

// callee identifies the local function that a node calls.
type callee struct{ domain, name, overload string }

// inliner is the state shared by all scopes of one Inline.
type inliner struct {
	functions map[callee]*Function
	opsets    []Opset
	taken     names
	active    []*Function // whose bodies are being inlined
	added     int
}

// graph inlines the calls of a scope; changed reports whether there was one.
func (in *inliner) graph(g *Graph) (changed bool, err error) {
	nodes := g.Nodes
	g.Nodes = make([]*Node, 0, len(nodes))
	for i, n := range nodes {
		is, err := in.node(g, n)
		if err != nil {
			return false, err.AtNode((&Graph{Nodes: nodes}).Label(NodeID(i)))
		}
		changed = changed || is
	}
	if changed {
		g.Link()
	}
	return changed, nil
}

// node adds a node, or its replacement, to g.
func (in *inliner) node(g *Graph, n *Node) (changed bool, err *Error) {
	for _, a := range n.Bodies() {
		for _, b := range a.All() {
			is, err := in.graph(b)
			if err != nil {
				return false, asError(err)
			}
			if is { // everything around it is encoded again
				b.Span, a.Span, n.Span = Span{}, Span{}, Span{}
				changed = true
			}
		}
	}
	f := in.functions[callee{n.Domain, n.Op, n.Overload}]
	if f == nil {
		if len(in.active) > 0 {
			if err := in.agree(n); err != nil {
				return false, err
			}
		}
		g.Nodes = append(g.Nodes, n)
		return changed, nil
	}
	return true, in.call(g, n, f)
}

// asError converts an error to an *Error.
func asError(err error) *Error {
	if e, ours := err.(*Error); ours {
		return e
	}
	return Errorf("%w", err)
}

// agree checks that a node has the same meaning in the model as in the function
// that it comes from.
func (in *inliner) agree(n *Node) *Error {
	f := in.active[len(in.active)-1]
	here, there := FindOpset(in.opsets, n.Domain), FindOpset(f.Opsets, n.Domain)
	switch {
	case there == 0 || here == there:
	case here == 0:
		in.opsets = append(in.opsets, Opset{n.Domain, there})
	default:
		return Errorf("function %q imports version %d of %s, the model version %d: expected one version to inline it", Short(f.Name), there, domainName(n.Domain), here)
	}
	return nil
}

func domainName(domain string) string {
	if domain == "" {
		return "ai.onnx"
	}
	return domain
}

// call replaces a call by the body of the function.
func (in *inliner) call(g *Graph, call *Node, f *Function) *Error {
	if slices.Contains(in.active, f) {
		return Errorf("function %q calls itself", Short(f.Name))
	}
	if len(call.Inputs) > len(f.Body.Inputs) || len(call.Outputs) > len(f.Body.Outputs) {
		return Errorf("function %q has %d inputs and %d outputs, found %d and %d in a call", Short(f.Name), len(f.Body.Inputs), len(f.Body.Outputs), len(call.Inputs), len(call.Outputs))
	}
	if in.added += len(f.Body.Nodes) + len(f.Body.Tensors); in.added > maxInlined {
		return Errorf("function %q: inlining makes more than %d nodes and tensors", Short(f.Name), maxInlined)
	}
	in.active = append(in.active, f)
	defer func() { in.active = in.active[:len(in.active)-1] }()
	s := &inlining{in: in, g: g, call: call, f: f, prefix: callName(g, call) + "/"}
	copied := s.tensors()
	for _, n := range f.Body.Nodes {
		c := *n
		c.Span, c.Semantics, c.Captures = Span{}, Semantics{}, nil
		c.Name = in.taken.unique(s.prefix + nodeName(n))
		c.Inputs, c.Outputs, c.Props = s.moved(n.Inputs), s.moved(n.Outputs), slices.Clone(n.Props)
		for _, p := range call.Props {
			if _, has := c.Prop(p.Key); !has {
				c.Props = append(c.Props, p)
			}
		}
		if err := s.attributes(&c, s.to); err != nil {
			return err
		}
		c.SetCaptures()
		if _, err := in.node(g, &c); err != nil {
			return err
		}
	}
	for _, p := range copied {
		if p[0] == None {
			return Errorf("function %q gives input back that the call leaves out", Short(f.Name))
		}
		g.Nodes = append(g.Nodes, &Node{Name: in.taken.unique(s.prefix + "Identity"), Op: "Identity", Inputs: []TensorID{p[0]}, Outputs: []TensorID{p[1]}})
	}
	return nil
}

// callName is the name of a call: its own, or else that of its first output.
func callName(g *Graph, call *Node) string {
	for _, t := range call.Outputs {
		if call.Name == "" && t != None {
			return g.Tensors[t].Name
		}
	}
	if call.Name == "" {
		return call.Op
	}
	return call.Name
}

func nodeName(n *Node) string {
	if n.Name == "" {
		return n.Op
	}
	return n.Name
}

// inlining is the state of one call while its body is copied.
type inlining struct {
	in     *inliner
	g      *Graph // the graph of the call
	call   *Node
	f      *Function
	prefix string
	to     []TensorID // from tensors of the body to those of g
}

// tensors maps each tensor of the body to one of g, which it adds if necessary.
// For outputs that the body does not make (an input, or an output that is listed
// twice) it returns pairs: from, to.
func (s *inlining) tensors() (copied [][2]TensorID) {
	body := s.f.Body
	s.to = make([]TensorID, len(body.Tensors))
	for i := range s.to {
		s.to[i] = None
	}
	input := make([]bool, len(body.Tensors))
	for i, t := range body.Inputs {
		input[t] = true
		if i < len(s.call.Inputs) {
			s.to[t] = s.call.Inputs[i]
		}
	}
	for k, outer := range s.call.Outputs {
		t := body.Outputs[k]
		switch {
		case outer == None:
		case input[t] || s.to[t] != None:
			copied = append(copied, [2]TensorID{s.to[t], outer})
		default:
			s.to[t] = outer
		}
	}
	for i, t := range body.Tensors {
		if s.to[i] == None && !input[i] {
			s.to[i] = s.g.NewTensor(s.in.taken.unique(s.prefix + t.Name))
			s.g.Tensors[s.to[i]].Declared = t.Declared
		}
	}
	return copied
}

func (s *inlining) moved(list []TensorID) []TensorID {
	out := slices.Clone(list)
	for i, t := range out {
		if t != None {
			out[i] = s.to[t]
		}
	}
	return out
}

// attributes gives a copied node its own attributes, with references replaced by
// those of the call. to maps the tensors around its bodies.
func (s *inlining) attributes(n *Node, to []TensorID) *Error {
	var attrs []*Attr
	for _, a := range n.Attrs {
		if a.Ref != "" {
			given := s.call.Attr(a.Ref)
			for _, d := range s.f.Defaults {
				if given == nil && d.Name == a.Ref {
					given = d
				}
			}
			if given == nil {
				continue // the operator's default applies
			}
			put := given.Clone()
			put.Name = a.Name
			for _, b := range put.All() {
				if len(b.Captures) > 0 {
					return Errorf("attribute %q of a call of function %s captures tensors of the calling graph: expected a graph without captures", Short(a.Ref), Short(s.f.Name))
				}
			}
			a = put
		} else {
			a = a.Clone()
		}
		for _, b := range a.All() {
			a.Span = Span{}
			if err := s.body(b, to); err != nil {
				return err
			}
		}
		attrs = append(attrs, a)
	}
	n.Attrs = attrs
	return nil
}

// body adapts a copied control-flow body to the graph around it: unique names,
// and captures of the new tensors.
func (s *inlining) body(b *Graph, to []TensorID) *Error {
	b.Span = Span{}
	if s.in.added += len(b.Nodes) + len(b.Tensors); s.in.added > maxInlined {
		return Errorf("function %q: inlining makes more than %d nodes and tensors", Short(s.f.Name), maxInlined)
	}
	for _, t := range b.Tensors {
		if !t.Capture && t.Name != "" && (t.Data == nil || t.Data.Sparse == nil) {
			t.Name = s.in.taken.unique(s.prefix + t.Name)
		}
	}
	for i, c := range b.Captures {
		if to == nil {
			break // the outer graph is a body too, and keeps its indices
		}
		if to[c.Outer] == None {
			return Errorf("function %q: a body reads input %q, which the call leaves out: expected it to be given", Short(s.f.Name), Short(b.Tensors[c.Inner].Name))
		}
		b.Captures[i].Outer = to[c.Outer]
	}
	for _, n := range b.Nodes {
		n.Span = Span{}
		if n.Name != "" {
			n.Name = s.in.taken.unique(s.prefix + n.Name)
		}
		if err := s.attributes(n, nil); err != nil {
			return err
		}
	}
	return nil
}

// NameCaptures gives captured tensors the names that they have in the outer
// graph.
func (g *Graph) NameCaptures() {
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				for _, c := range b.Captures {
					b.Tensors[c.Inner].Name = g.Tensors[c.Outer].Name
				}
				b.NameCaptures()
			}
		}
	}
}
