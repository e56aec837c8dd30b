package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Check reports the first fault in the structure of a model, as an *Error that names the node
// or the tensor. It may be an index out of range, a tensor with two makers or without one,
// links that differ from those of [Graph.Link], an impossible type, or a cycle. A model read
// from a file passes; call Check on a model that was made or changed by hand. A model that
// passes can be planned, unless its operators are used wrongly. It takes O(E) time.
func Check(m *Model) error {
	if m == nil || m.Graph == nil {
		return Errorf("a model without a graph: expected one")
	}
	c := checker{seen: map[any]bool{}}
	if err := c.graph(m.Graph, nil); err != nil {
		return err
	}
	for i, f := range m.Functions {
		if f == nil || f.Body == nil {
			return Errorf("function %d has no body: expected a graph", i)
		}
		if err := c.graph(f.Body, nil); err != nil {
			return within(err, fmt.Sprintf("function %q", Short(f.Name)))
		}
	}
	return nil
}

// checker remembers graphs, nodes and tensors, which must not occur in two
// places.
type checker struct{ seen map[any]bool }

// once reports whether it sees thing for the first time.
func (c *checker) once(thing any) bool {
	if c.seen[thing] {
		return false
	}
	c.seen[thing] = true
	return true
}

// graph checks one scope and the bodies within it; outer is the outer graph.
func (c *checker) graph(g, outer *Graph) error {
	if !c.once(g) {
		return Errorf("graph %q stands in two places: expected a copy (Graph.Clone)", Short(g.Name))
	}
	if err := c.parts(g); err != nil {
		return err
	}
	if err := checkCaptures(g, outer); err != nil {
		return err
	}
	if err := checkLinks(g); err != nil {
		return err
	}
	if _, err := g.Topological(); err != nil {
		return Errorf("%w", err)
	}
	for i, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				if err := c.graph(b, g); err != nil {
					return within(err, fmt.Sprintf("%s: attribute %q", g.Label(NodeID(i)), Short(a.Name)))
				}
			}
		}
		if err := checkNodeCaptures(g, NodeID(i)); err != nil {
			return err
		}
	}
	return nil
}

// parts checks the tensors, the nodes and the lists of a graph: everything on
// which Link relies.
func (c *checker) parts(g *Graph) error {
	if err := c.tensors(g); err != nil {
		return err
	}
	if err := c.nodes(g); err != nil {
		return err
	}
	return checkLists(g)
}

// within adds the place of a body to an error inside it.
func within(err error, place string) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", place, err)
	}
	outer := *e
	if outer.Node = place; e.Node != "" {
		outer.Node += ": " + e.Node
	}
	return &outer
}

// tensors checks every tensor by itself: its name, its type and its elements.
func (c *checker) tensors(g *Graph) error {
	if len(g.Tensors) > math.MaxInt32 || len(g.Nodes) > math.MaxInt32 {
		return Errorf("%d nodes and %d tensors: expected at most %d of each", len(g.Nodes), len(g.Tensors), math.MaxInt32)
	}
	names := map[string]bool{}
	for i, t := range g.Tensors {
		if t == nil {
			return Errorf("tensor %d is nil: expected a tensor", i)
		}
		if !c.once(t) {
			return tensorError(t, "is listed twice in the graph's tensors: expected one entry")
		}
		if t.Name == "" {
			return Errorf("tensor %d has no name: expected one", i)
		}
		if names[t.Name] {
			return tensorError(t, "two tensors have this name: expected names that differ")
		}
		names[t.Name] = true
		if d := t.Declared; d != nil {
			if err := checkType(&d.Type, 0); err != nil {
				return tensorError(t, "its declared type: %v", err)
			}
			if d.Type.Kind == KindTensor && d.Type.Ranked && len(d.Symbols) != len(d.Type.Shape) {
				return tensorError(t, "its declared type has %d symbols: expected %d, one for each axis", len(d.Symbols), len(d.Type.Shape))
			}
		}
		if t.Data != nil {
			if err := checkData(t.Data); err != nil {
				return tensorError(t, "its elements: %v", err)
			}
		}
	}
	return nil
}

// mostNested limits nested types (a sequence of optionals of ...).
const mostNested = 64

// checkType checks that ONNX has the type.
func checkType(t *Type, depth int) error {
	switch {
	case t.Kind < KindUnknown || t.Kind > KindOpaque:
		return fmt.Errorf("kind %d: expected one of the kinds of values", t.Kind)
	case t.Elem != Undefined && !t.Elem.Valid():
		return fmt.Errorf("%v: expected an element type that ONNX has", t.Elem)
	case t.Of != nil && depth == mostNested:
		return fmt.Errorf("more than %d types within each other", mostNested)
	case t.Of != nil:
		return checkType(t.Of, depth+1)
	}
	return nil
}

// checkData checks that the number of elements of an initializer is valid, and
// that elements in memory match its shape.
func checkData(d *Data) error {
	if !d.Type.Valid() {
		return fmt.Errorf("%v: expected an element type that ONNX has", d.Type)
	}
	n := int64(1)
	for _, k := range d.Dims {
		if k < 0 || k > 0 && n > math.MaxInt64/k {
			return fmt.Errorf("shape %v: expected lengths of 0 or more whose product fits 63 bits", d.Dims)
		}
		n *= k
	}
	if s := d.Sparse; s != nil {
		if s.Values == nil || s.Indices == nil {
			return errors.New("a sparse tensor without values or indices: expected both")
		}
		return errors.Join(checkData(s.Values), checkData(s.Indices))
	}
	if d.Bytes < 0 {
		return fmt.Errorf("%d bytes: expected 0 or more", d.Bytes)
	}
	if d.Type.Bits() == 0 {
		return nil
	}
	bytes, err := d.Type.SizeBytes(n)
	switch {
	case err != nil:
		return err
	case d.Bytes != bytes:
		return fmt.Errorf("%d bytes: expected %d for %v%v", d.Bytes, bytes, d.Type, d.Dims)
	case d.Raw != nil && int64(len(d.Raw)) != bytes:
		return fmt.Errorf("%d bytes in Raw: expected %d for %v%v", len(d.Raw), bytes, d.Type, d.Dims)
	}
	return nil
}

// nodes checks every node by itself, and that each tensor is made once.
func (c *checker) nodes(g *Graph) error {
	made := make([]bool, len(g.Tensors))
	for i, n := range g.Nodes {
		if n == nil {
			return Errorf("node %d is nil: expected a node", i)
		}
		fault := func(format string, args ...any) error {
			return Errorf(format, args...).AtNode(g.Label(NodeID(i)))
		}
		if !c.once(n) {
			return fault("is listed twice in the graph's nodes: expected one entry")
		}
		if n.Op == "" {
			return fault("no operator: expected its name")
		}
		for k, t := range n.Inputs {
			if t != None && !g.has(t) {
				return fault("input %d is tensor %d: expected one of %d, or None", k, t, len(g.Tensors))
			}
		}
		for k, t := range n.Outputs {
			switch {
			case t == None:
			case !g.has(t):
				return fault("output %d is tensor %d: expected one of %d, or None", k, t, len(g.Tensors))
			case made[t]:
				return fault("output %d is %q: expected a tensor that no other output is", k, Short(g.Tensors[t].Name))
			default:
				made[t] = true
			}
		}
		for _, t := range n.Captures {
			if !g.has(t) {
				return fault("its bodies read tensor %d: expected one of %d", t, len(g.Tensors))
			}
		}
		for k, a := range n.Attrs {
			switch {
			case a == nil:
				return fault("attribute %d is nil: expected an attribute", k)
			case slices.Contains(a.Graphs, nil):
				return fault("attribute %q: a graph is nil: expected a graph", Short(a.Name))
			case slices.Contains(a.Tensors, nil):
				return fault("attribute %q: a tensor is nil: expected a tensor", Short(a.Name))
			}
		}
	}
	return nil
}

// has reports whether t is one of the graph's tensors.
func (g *Graph) has(t TensorID) bool { return t >= 0 && int(t) < len(g.Tensors) }

// checkLists checks the graph's inputs and outputs, and that every tensor that is
// read, or is an output, has a source.
func checkLists(g *Graph) error {
	made := make([]bool, len(g.Tensors))
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				made[t] = true
			}
		}
	}
	known := make([]bool, len(g.Tensors))
	for i, t := range g.Tensors {
		if known[i] = made[i] || t.Data != nil || t.Capture; made[i] && (t.Data != nil || t.Capture) {
			return tensorError(t, "a node makes it, and it has elements or comes from outside: expected one of these")
		}
	}
	for k, id := range g.Inputs {
		if !g.has(id) {
			return Errorf("graph input %d is tensor %d: expected one of %d", k, id, len(g.Tensors))
		}
		if t := g.Tensors[id]; known[id] {
			return tensorError(t, "is a graph input, and is made, has elements, comes from outside or is listed twice: expected one of these")
		}
		known[id] = true
	}
	for i, n := range g.Nodes {
		for k, t := range n.Inputs {
			if t >= 0 && !known[t] {
				return tensorError(g.Tensors[t], "input %d of %s: nothing makes it: expected a node output, a graph input or an initializer", k, g.Label(NodeID(i)))
			}
		}
	}
	for k, id := range g.Outputs {
		if !g.has(id) {
			return Errorf("graph output %d is tensor %d: expected one of %d", k, id, len(g.Tensors))
		}
		if !known[id] {
			return tensorError(g.Tensors[id], "is a graph output, but nothing makes it: expected a node output, a graph input or an initializer")
		}
	}
	return nil
}

// checkCaptures checks the tensors that a body captures from the outer graph.
func checkCaptures(g, outer *Graph) error {
	listed := make([]bool, len(g.Tensors))
	for k, c := range g.Captures {
		switch {
		case outer == nil:
			return Errorf("graph %q reads from outside: expected a graph around it", Short(g.Name))
		case !g.has(c.Inner):
			return Errorf("capture %d is tensor %d: expected one of %d", k, c.Inner, len(g.Tensors))
		case !outer.has(c.Outer):
			return tensorError(g.Tensors[c.Inner], "comes from tensor %d of the graph around it: expected one of %d", c.Outer, len(outer.Tensors))
		}
		listed[c.Inner] = true
	}
	for i, t := range g.Tensors {
		if t.Capture != listed[i] {
			return tensorError(t, "comes from outside (%t), and is in the list of captures (%t): expected both or neither", t.Capture, listed[i])
		}
	}
	return nil
}

// checkNodeCaptures checks that a node's captures are those of its bodies.
func checkNodeCaptures(g *Graph, i NodeID) error {
	n := Node{Attrs: g.Nodes[i].Attrs}
	n.SetCaptures()
	if !slices.Equal(n.Captures, g.Nodes[i].Captures) {
		return Errorf("its bodies read tensors %v, its captures are %v: expected the same (Node.SetCaptures)", n.Captures, g.Nodes[i].Captures).AtNode(g.Label(i))
	}
	return nil
}

// checkLinks checks that the tensors have the links that Link would set.
func checkLinks(g *Graph) error {
	linked := &Graph{Nodes: g.Nodes, Inputs: g.Inputs, Outputs: g.Outputs, Tensors: make([]*Tensor, len(g.Tensors))}
	for i := range g.Tensors {
		linked.Tensors[i] = &Tensor{}
	}
	linked.Link()
	for i, t := range g.Tensors {
		want := linked.Tensors[i]
		if t.Maker != want.Maker || t.Out != want.Out || t.Input != want.Input || t.Output != want.Output || !slices.Equal(t.Readers, want.Readers) {
			return tensorError(t, "its links are not those of the graph: expected Graph.Link after the last change")
		}
	}
	return nil
}

// tensorError is an error about a tensor.
func tensorError(t *Tensor, format string, args ...any) *Error {
	e := Errorf(format, args...)
	e.Tensor = t.Name
	return e
}
