package onnx

import (
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// maxGraphDepth limits nested bodies. Protobuf's own limit of 100 nested messages
// stops other readers at 33 levels.
const maxGraphDepth = 100

// scope is a graph whose names are being resolved.
type scope struct {
	g     *graph.Graph
	names map[string]graph.TensorID
	outer *scope
	depth int
	// bodies are attributes with graphs. They are decoded once all names of this
	// scope are known, since a body may read the output of a later node.
	bodies []pendingBody
	// tensors and nodes are room for the next ones, in pieces: each on its own takes up to a
	// tenth more memory.
	tensors []graph.Tensor
	nodes   []graph.Node
}

// room is the largest size, in bytes, of a piece of memory for tensors or nodes: Go's heap
// rounds larger ones up to whole pages.
const room = 32<<10 - 64

type pendingBody struct {
	node  graph.NodeID
	attr  *graph.Attr
	graph []graph.Span
}

func newScope(outer *scope) *scope {
	s := &scope{g: &graph.Graph{}, names: map[string]graph.TensorID{}, outer: outer}
	if outer != nil {
		s.depth = outer.depth + 1
	}
	return s
}

// find returns the tensor with that name: of this scope, or captured from an
// outer one.
func (s *scope) find(name string) (graph.TensorID, bool) {
	if id, ok := s.names[name]; ok {
		return id, true
	}
	if s.outer == nil {
		return 0, false
	}
	outer, ok := s.outer.find(name)
	if !ok {
		return 0, false
	}
	id := s.define(name)
	s.g.Tensors[id].Capture = true
	s.g.Captures = append(s.g.Captures, graph.Capture{Inner: id, Outer: outer})
	return id, true
}

func (s *scope) define(name string) graph.TensorID {
	if len(s.tensors) == 0 {
		s.tensors = make([]graph.Tensor, min(room/int(unsafe.Sizeof(graph.Tensor{})), 1+len(s.g.Tensors)))
	}
	t := &s.tensors[0]
	s.tensors = s.tensors[1:]
	t.Name, t.Maker = name, graph.None
	id := graph.TensorID(len(s.g.Tensors))
	s.g.Tensors = append(s.g.Tensors, t)
	s.names[name] = id
	return id
}

// node adds a node.
func (s *scope) node(at graph.Span) (graph.NodeID, *graph.Node) {
	if len(s.nodes) == 0 {
		s.nodes = make([]graph.Node, min(room/int(unsafe.Sizeof(graph.Node{})), 1+len(s.g.Nodes)))
	}
	n := &s.nodes[0]
	s.nodes = s.nodes[1:]
	n.Span = at
	s.g.Nodes = append(s.g.Nodes, n)
	return graph.NodeID(len(s.g.Nodes) - 1), n
}

// graphParts holds the fields of a GraphProto.
type graphParts struct {
	nodes, initializers, sparse    []graph.Span
	inputs, outputs, values        []valueInfo
	signature                      string
	functionInputs, functionOutput []string
}

// graph decodes a GraphProto and the bodies in it.
func (r *reader) graph(at graph.Span, outer *scope) (*graph.Graph, error) {
	const what = "GraphProto"
	s := newScope(outer)
	s.g.Span = at
	if s.depth > maxGraphDepth {
		return nil, r.errorAt(at.Off, "graphs are nested more than %d levels deep", maxGraphDepth)
	}
	var p graphParts
	err := r.walk(at, what, func(f field) error {
		switch f.num {
		case 1, 2, 5, 11, 12, 13, 15:
			if err := r.message(f, what); err != nil {
				return err
			}
		}
		switch f.num {
		case 1:
			p.nodes = append(p.nodes, f.payload)
		case 2:
			s.g.Name = r.text(f.payload)
		case 5:
			p.initializers = append(p.initializers, f.payload)
		case 15:
			p.sparse = append(p.sparse, f.payload)
		case 11, 12, 13:
			v, err := r.valueInfo(f.payload)
			if err != nil {
				return err
			}
			list := map[protowire.Number]*[]valueInfo{11: &p.inputs, 12: &p.outputs, 13: &p.values}[f.num]
			*list = append(*list, v)
		case 16:
			p.signature += r.signature(f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.g, r.fill(s, &p)
}

// fill builds the graph of a scope from its parts.
func (r *reader) fill(s *scope, p *graphParts) error {
	g := s.g
	if len(p.nodes) > math.MaxInt32/2 {
		return r.errorAt(g.Span.Off, "%d nodes: expected fewer than 2^30", len(p.nodes))
	}
	if err := r.constants(s, p); err != nil {
		return err
	}
	if err := r.inputs(s, p); err != nil {
		return err
	}
	inputs, err := r.nodes(s, p.nodes)
	if err != nil {
		return err
	}
	for _, v := range append(p.outputs, p.values...) {
		if id, ok := s.names[v.name]; ok && g.Tensors[id].Declared == nil {
			g.Tensors[id].Declared = v.declared
		}
	}
	for i, names := range inputs {
		if err := r.resolve(s, graph.NodeID(i), names); err != nil {
			return err
		}
	}
	s.setOrigins(p)
	for _, b := range s.bodies {
		if err := r.body(s, b); err != nil {
			return err
		}
	}
	for _, name := range p.functionOutput {
		p.outputs = append(p.outputs, valueInfo{name: name, at: g.Span.Off})
	}
	for _, v := range p.outputs {
		id, ok := s.find(v.name)
		if !ok {
			e := r.errorAt(v.at, "is a graph output, but nothing makes it: expected a node output, an input or an initializer of that name")
			e.Tensor = v.name
			return e
		}
		g.Outputs = append(g.Outputs, id)
	}
	for _, n := range g.Nodes {
		n.SetCaptures()
	}
	g.Link()
	_, err = g.Topological()
	if err != nil {
		e := graph.Errorf("%w", err)
		e.File = r.name
		return e
	}
	return nil
}

// constants defines the initializers, dense and sparse.
func (r *reader) constants(s *scope, p *graphParts) error {
	add := func(d *graph.Data, err error) error {
		if err != nil {
			return err
		}
		if d.Name == "" {
			return r.errorAt(d.Span.Off, "an initializer without a name: expected one")
		}
		if _, twice := s.names[d.Name]; twice {
			return r.twice(d.Span.Off, d.Name, "an initializer", "another initializer")
		}
		s.g.Tensors[s.define(d.Name)].Data = d
		return nil
	}
	for _, at := range p.initializers {
		if err := add(r.tensor(at)); err != nil {
			return err
		}
	}
	for _, at := range p.sparse {
		if err := add(r.sparse(at)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) twice(off int64, name, one, other string) error {
	e := r.errorAt(off, "is made twice: by %s and by %s", one, other)
	e.Tensor = name
	return e
}

// inputs defines the graph inputs that are not initializers.
func (r *reader) inputs(s *scope, p *graphParts) error {
	for _, name := range p.functionInputs {
		p.inputs = append(p.inputs, valueInfo{name: name, at: s.g.Span.Off})
	}
	seen := map[string]bool{}
	for _, v := range p.inputs {
		if v.name == "" {
			return r.errorAt(v.at, "a graph input without a name: expected one")
		}
		if seen[v.name] {
			return r.twice(v.at, v.name, "a graph input", "another graph input")
		}
		seen[v.name] = true
		if id, ok := s.names[v.name]; ok {
			s.g.Tensors[id].Declared, s.g.Tensors[id].Overridable = v.declared, true
			continue
		}
		id := s.define(v.name)
		t := s.g.Tensors[id]
		t.Input, t.Declared = true, v.declared
		s.g.Inputs = append(s.g.Inputs, id)
	}
	return nil
}

// nodes decodes the nodes and defines their outputs. It returns the names of each
// node's inputs.
func (r *reader) nodes(s *scope, spans []graph.Span) ([][]string, error) {
	g := s.g
	if len(spans) > 0 {
		g.Nodes = make([]*graph.Node, 0, len(spans))
	}
	all := make([][]string, len(spans))
	var outputs []string
	for i, at := range spans {
		id, n := s.node(at)
		outputs = outputs[:0]
		if err := r.node(s, id, n, &all[i], &outputs); err != nil {
			return nil, err
		}
		if n.Op == "" {
			e := r.errorAt(at.Off, "op_type is missing: expected the name of an operator")
			return nil, e.AtNode(g.Label(id))
		}
		for _, name := range outputs {
			if name == "" {
				n.Outputs = append(n.Outputs, graph.None)
				continue
			}
			if id, ok := s.names[name]; ok {
				return nil, r.twice(at.Off, name, g.Label(graph.NodeID(i)), maker(g, id))
			}
			made := s.define(name)
			g.Tensors[made].Maker = id
			n.Outputs = append(n.Outputs, made)
		}
	}
	return all, nil
}

// maker describes the maker of a tensor, for messages.
func maker(g *graph.Graph, id graph.TensorID) string {
	t := g.Tensors[id]
	switch {
	case t.Data != nil:
		return "an initializer"
	case t.Input:
		return "a graph input"
	}
	return g.Label(t.Maker)
}

// node decodes one NodeProto; its bodies are left for later.
func (r *reader) node(s *scope, id graph.NodeID, n *graph.Node, inputs, outputs *[]string) error {
	const what = "NodeProto"
	var attrs map[string]bool
	return r.walk(n.Span, what, func(f field) error {
		if f.num < 1 || f.num > 9 {
			return nil
		}
		if err := r.message(f, what); err != nil {
			return err
		}
		text := func() (string, error) { t := r.text(f.payload); return t, r.utf8(f, t) }
		word := func() (string, error) { t := r.word(f.payload); return t, r.utf8(f, t) }
		var name string
		var err error
		switch f.num {
		case 1:
			if made, is := s.names[string(r.bytes(f.payload))]; is {
				name = s.g.Tensors[made].Name // its text is there already
				err = r.utf8(f, name)
			} else {
				name, err = text()
			}
			*inputs = append(*inputs, name)
		case 2:
			name, err = text()
			*outputs = append(*outputs, name)
		case 3:
			n.Name, err = text()
		case 4:
			n.Op, err = word()
		case 5:
			if attrs == nil {
				attrs = map[string]bool{}
			}
			err = r.attribute(s, id, n, attrs, f.payload)
		case 7:
			n.Domain, err = word()
			n.Domain = domain(n.Domain)
		case 8:
			n.Overload, err = text()
		case 9:
			var p graph.Prop
			p, err = r.prop(f.payload, "metadata_props")
			n.Props = append(n.Props, p)
		}
		return err
	})
}

// domain spells the standard domain as "".
func domain(s string) string {
	if s == "ai.onnx" {
		return ""
	}
	return s
}

// attribute decodes an AttributeProto.
func (r *reader) attribute(s *scope, id graph.NodeID, n *graph.Node, names map[string]bool, at graph.Span) error {
	a := &graph.Attr{Span: at}
	graphs, err := r.attributeFields(a)
	if err != nil {
		return err
	}
	if names[a.Name] {
		return r.errorAt(at.Off, "attribute %s occurs twice in one node", quoted(a.Name))
	}
	names[a.Name] = true
	n.Attrs = append(n.Attrs, a)
	if len(graphs) > 0 {
		s.bodies = append(s.bodies, pendingBody{id, a, graphs})
	}
	return nil
}

// attributeFields decodes an attribute except for its graphs, whose spans it
// returns.
func (r *reader) attributeFields(a *graph.Attr) (graphs []graph.Span, err error) {
	const what = "AttributeProto"
	kind := graph.AttrUndefined
	err = r.walk(a.Span, what, func(f field) error {
		var err error
		switch f.num {
		case 1, 4, 5, 6, 9, 10, 11, 14, 15, 21, 22, 23:
			if err := r.message(f, what); err != nil {
				return err
			}
		case 3, 20:
			if err := r.want(f, protowire.VarintType, what); err != nil {
				return err
			}
		case 2:
			if err := r.want(f, protowire.Fixed32Type, what); err != nil {
				return err
			}
		}
		switch f.num {
		case 1:
			a.Name = r.word(f.payload)
			err = r.utf8(f, a.Name)
		case 21:
			a.Ref = r.text(f.payload)
		case 20:
			a.Type = graph.AttrType(int32(f.value))
		case 2:
			a.Float, kind = math.Float32frombits(uint32(f.value)), graph.AttrFloat
		case 3:
			a.Int, kind = int64(f.value), graph.AttrInt
		case 4:
			a.String, kind = r.text(f.payload), graph.AttrString
		case 5:
			a.Tensor, err = r.tensor(f.payload)
			kind = graph.AttrTensor
		case 6:
			graphs = append(graphs, f.payload)
			kind = graph.AttrGraph
		case 7:
			var words []uint32
			words, err = r.fixed32s(f, nil, what)
			for _, w := range words {
				a.Floats = append(a.Floats, math.Float32frombits(w))
			}
			kind = graph.AttrFloats
		case 8:
			a.Ints, err = r.varints(f, a.Ints, what)
			kind = graph.AttrInts
		case 9:
			a.Strings, kind = append(a.Strings, r.text(f.payload)), graph.AttrStrings
		case 10:
			var t *graph.Data
			t, err = r.tensor(f.payload)
			a.Tensors, kind = append(a.Tensors, t), graph.AttrTensors
		case 11:
			graphs = append(graphs, f.payload)
			kind = graph.AttrGraphs
		case 14:
			a.TypeOf, err = r.typeProto(f.payload, 0)
			kind = graph.AttrTypeProto
		case 22:
			var d *graph.Data
			if d, err = r.sparse(f.payload); err == nil {
				a.Sparse = d.Sparse
			}
			kind = graph.AttrSparseTensor
		}
		return err
	})
	if a.Type == graph.AttrUndefined {
		a.Type = kind // files of IR version 1 have no type
	}
	if err == nil && a.Type == graph.AttrGraph && len(graphs) > 1 {
		err = r.errorAt(a.Span.Off, "attribute %s holds %d graphs, expected one", quoted(a.Name), len(graphs))
	}
	return graphs, err
}

// resolve finds the tensors that node id reads.
func (r *reader) resolve(s *scope, id graph.NodeID, names []string) error {
	n := s.g.Nodes[id]
	for k, name := range names {
		if name == "" {
			n.Inputs = append(n.Inputs, graph.None)
			continue
		}
		t, ok := s.find(name)
		if !ok {
			e := r.errorAt(n.Span.Off, "is input %d, but nothing makes it: expected a node output, a graph input or an initializer of that name", k)
			e.Tensor = name
			return e.AtNode(s.g.Label(id))
		}
		n.Inputs = append(n.Inputs, t)
	}
	return nil
}

// body decodes the graphs of an attribute.
func (r *reader) body(s *scope, b pendingBody) error {
	for _, at := range b.graph {
		g, err := r.graph(at, s)
		if err != nil {
			return err
		}
		if b.attr.Type == graph.AttrGraphs {
			b.attr.Graphs = append(b.attr.Graphs, g)
		} else {
			b.attr.Graph = g
		}
	}
	return nil
}
