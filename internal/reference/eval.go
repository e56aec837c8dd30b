package reference

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// operator is one operator and its implementation for all opset versions.
type operator struct {
	name string
	eval func(c *evaluation) []*Tensor
}

// family holds the operators of one file.
type family struct {
	domain    string
	operators []operator
	exact     bool // they only move or compare elements
}

type key struct{ domain, name string }

var (
	table map[key]*operator
	exact map[key]bool
)

func init() {
	table, exact = map[key]*operator{}, map[key]bool{}
	for _, f := range families {
		for i := range f.operators {
			k := key{f.domain, f.operators[i].name}
			if table[k] != nil {
				panic("reference: two entries for " + k.domain + " " + k.name)
			}
			table[k] = &f.operators[i]
			exact[k] = f.exact
		}
	}
}

// Knows reports whether the evaluator implements an operator.
func Knows(domain, op string) bool { return table[key{domain, op}] != nil }

// Eval computes the named tensors of the main graph, or its outputs if no name is
// given, and only the nodes that they need. feeds holds the graph's inputs; a feed
// with the name of an initializer replaces it.
func Eval(m *graph.Model, feeds map[string]*Tensor, want ...string) (out map[string]*Tensor, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	defer caught(&err)
	s := newScope(m, m.Graph, m.Opsets)
	wanted := map[string]bool{}
	for _, name := range want {
		wanted[name] = true
	}
	for _, id := range m.Graph.Outputs {
		if len(want) == 0 {
			wanted[m.Graph.Tensors[id].Name] = true
		}
	}
	for id, t := range m.Graph.Tensors {
		if x := feeds[t.Name]; x != nil {
			s.values[id] = x
		}
	}
	out = map[string]*Tensor{}
	for id, t := range m.Graph.Tensors {
		if wanted[t.Name] {
			out[t.Name] = s.value(graph.TensorID(id))
		}
	}
	for name := range wanted {
		if out[name] == nil {
			return nil, fmt.Errorf("tensor %q does not exist", name)
		}
	}
	return out, nil
}

// fault is the panic of an operator that cannot be computed; Eval returns it as an
// error.
type fault struct{ error }

// caught turns a fault into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		f, ours := r.(fault)
		if !ours {
			panic(r)
		}
		*err = f.error
	}
}

func fail(format string, args ...any) {
	panic(fault{fmt.Errorf(format, args...)})
}

// scope is a graph that is being evaluated.
type scope struct {
	model  *graph.Model
	g      *graph.Graph
	opsets []graph.Opset
	values []*Tensor
	maker  []*graph.Node
	attrs  map[string]*graph.Attr // of the call of a function
}

func newScope(m *graph.Model, g *graph.Graph, opsets []graph.Opset) *scope {
	s := &scope{model: m, g: g, opsets: opsets, values: make([]*Tensor, len(g.Tensors)), maker: make([]*graph.Node, len(g.Tensors))}
	for _, n := range g.Nodes {
		for _, id := range n.Outputs {
			if id != graph.None {
				s.maker[id] = n
			}
		}
	}
	return s
}

// value computes a tensor and, before it, the tensors that it needs.
func (s *scope) value(id graph.TensorID) *Tensor {
	if id == graph.None {
		return nil
	}
	t := s.g.Tensors[id]
	switch n := s.maker[id]; {
	case s.values[id] != nil:
	case t.Data != nil:
		x, err := FromData(t.Data)
		if err != nil {
			panic(fault{err})
		}
		s.values[id] = x
	case n != nil:
		s.node(n)
	default:
		fail("tensor %q: expected a feed", t.Name)
	}
	return s.values[id]
}

// node computes the outputs of a node.
func (s *scope) node(n *graph.Node) {
	c := &evaluation{Node: n, version: graph.FindOpset(s.opsets, n.Domain), scope: s, outputs: len(n.Outputs)}
	for _, id := range n.Inputs {
		if id != graph.None && s.maker[id] == nil && s.values[id] == nil && s.g.Tensors[id].Data == nil && s.attrs != nil {
			c.in = append(c.in, nil) // an input that the call of the function leaves out
			continue
		}
		c.in = append(c.in, s.value(id))
	}
	defer func() {
		if r := recover(); r != nil {
			if f, ours := r.(fault); ours {
				r = fault{fmt.Errorf("node %q (%s): %w", n.Name, n.OpName(), f.error)}
			}
			panic(r)
		}
	}()
	var out []*Tensor
	if f := s.function(n); f != nil {
		out = s.call(n, f, c.in)
	} else if op := table[key{n.Domain, n.Op}]; op != nil {
		c.checkTypes()
		out = op.eval(c)
	} else if made, ok := s.control(c); ok {
		out = made
	} else {
		panic(fault{ErrUnknown})
	}
	for k, id := range n.Outputs {
		if id == graph.None {
			continue
		}
		if k >= len(out) || out[k] == nil {
			fail("output %d is not made", k)
		}
		s.values[id] = out[k].rounded()
	}
}

// function returns the local function that a node calls, or nil.
func (s *scope) function(n *graph.Node) *graph.Function {
	for _, f := range s.model.Functions {
		if f.Domain == n.Domain && f.Name == n.Op && f.Overload == n.Overload {
			return f
		}
	}
	return nil
}

// call evaluates the body of a local function.
func (s *scope) call(n *graph.Node, f *graph.Function, in []*Tensor) []*Tensor {
	inner := newScope(s.model, f.Body, f.Opsets)
	inner.attrs = map[string]*graph.Attr{}
	for _, a := range f.Defaults {
		inner.attrs[a.Name] = a
	}
	for _, a := range n.Attrs {
		if a = s.attr(a); a != nil {
			inner.attrs[a.Name] = a
		}
	}
	for i, id := range f.Body.Inputs {
		if i < len(in) {
			inner.values[id] = in[i]
		}
	}
	var out []*Tensor
	for _, id := range f.Body.Outputs {
		out = append(out, inner.value(id))
	}
	return out
}

// attr resolves an attribute that refers to an attribute of the function; nil if the
// call omits that.
func (s *scope) attr(a *graph.Attr) *graph.Attr {
	if a.Ref == "" {
		return a
	}
	given := s.attrs[a.Ref]
	if given == nil {
		return nil
	}
	b := *given
	b.Name = a.Name
	return &b
}

// evaluation is a node with the values of its inputs.
type evaluation struct {
	*graph.Node
	version int64
	scope   *scope
	in      []*Tensor
	outputs int
	bounds  []bound // by output; for Node
	alone   bool    // for Node: random numbers are refused
	block   int     // channels in a block of an image; 0: not known
}

// x returns input i, or nil if it is omitted.
func (c *evaluation) x(i int) *Tensor {
	if i >= len(c.in) {
		return nil
	}
	return c.in[i]
}

// attr returns an attribute, or nil if the node has none of that name.
func (c *evaluation) attr(name string) *graph.Attr {
	a := c.Attr(name)
	if a == nil {
		return nil
	}
	return c.scope.attr(a)
}

func (c *evaluation) has(name string) bool { return c.attr(name) != nil }

func (c *evaluation) int(name string, otherwise int) int {
	if a := c.attr(name); a != nil {
		return int(a.Int)
	}
	return otherwise
}

func (c *evaluation) float(name string, otherwise float64) float64 {
	if a := c.attr(name); a != nil {
		return float64(a.Float)
	}
	return otherwise
}

func (c *evaluation) str(name, otherwise string) string {
	if a := c.attr(name); a != nil {
		return a.String
	}
	return otherwise
}

func (c *evaluation) ints(name string, otherwise []int) []int {
	a := c.attr(name)
	if a == nil {
		return otherwise
	}
	return toInts(a.Ints)
}

// list returns the elements of integer input i, or nil if it is omitted.
func (c *evaluation) list(i int) []int {
	if c.x(i) == nil {
		return nil
	}
	return append([]int{}, toInts(c.x(i).I)...)
}

// listOr returns the attribute of that name before an opset, and input i from that
// opset on; nil if it is omitted.
func (c *evaluation) listOr(name string, i int, since int64) []int {
	a := c.attr(name)
	switch {
	case c.version >= since && a != nil:
		fail("attribute %s: an input since opset %d", name, since)
	case c.version >= since:
		return c.list(i)
	case c.x(i) != nil:
		fail("input %d: attribute %s before opset %d", i, name, since)
	case a != nil:
		return append([]int{}, toInts(a.Ints)...)
	}
	return nil
}

// axis returns an attribute that names an axis, normalized to [0, rank).
func (c *evaluation) axis(name string, otherwise, rank int) int {
	return wrapAxis(c.int(name, otherwise), rank)
}

func wrapAxis(a, rank int) int {
	if a < 0 {
		a += rank
	}
	if a < 0 || a > rank {
		fail("axis %d of rank %d", a, rank)
	}
	return a
}

func toInts(v []int64) []int {
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

func toInt64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// filled returns a list of n times v.
func filled(v, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// one returns a result that consists of one tensor.
func one(x *Tensor) []*Tensor { return []*Tensor{x} }
