package graph

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a model from its printed form, which [Print] writes. name stands for the file
// in errors, which are of type [*Error] and hold a [*SyntaxError] where a place in the text is
// at fault. The model passes [Check]. Elements that the text leaves out are not known
// ([Data.Elided]). It takes time and memory in proportion to the length of the text, and
// at most 4 MiB for elements that are given by one number.
func Parse(name, text string) (*Model, error) {
	p := &parser{lexer: lexer{text: text}, m: &Model{}, fill: mostFilled}
	err := p.parse()
	if err == nil {
		if err = Check(p.m); err == nil {
			return p.m, nil
		}
	}
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf("%w", err)
	}
	e.File = name
	return nil, e
}

const (
	mostFilled = 4 << 20 // bytes of elements that are given by one number, in one text
	mostBodies = 100     // levels of nested bodies, as in package onnx
)

// parser reads statements. tok is the next token.
type parser struct {
	lexer
	tok      token
	m        *Model
	fill     int64 // bytes left of mostFilled
	captures int   // of all bodies
}

// scopeText is a graph whose names are not resolved yet: a body may read what a later node
// of the graph around it makes.
type scopeText struct {
	g     *Graph
	inits []nameText
	ins   []nameText
	outs  []nameText
	nodes []nodeText
}

// nameText is a name and its place in the text; "" is a tensor that is left out.
type nameText struct {
	name string
	at   int
	t    *Tensor // of an initializer or input: what its statement says
}

type nodeText struct {
	n       *Node
	in, out []nameText
	types   []*Declared
	places  []string
	bodies  []bodyText
	attrs   map[string]bool // the names of its attributes
}

type bodyText struct {
	attr *Attr
	s    *scopeText
}

func (p *parser) parse() error {
	if err := p.advance(); err != nil {
		return err
	}
	s := &scopeText{g: &Graph{}}
	if err := p.statements(s, nil, 0); err != nil {
		return err
	}
	p.m.Graph = s.g
	return p.build(s, nil)
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

// fault is an error about the next token.
func (p *parser) fault(expected string) error {
	return p.fail(p.tok.at, "found %v: expected %s", p.tok, expected)
}

// take skips a punctuation mark.
func (p *parser) take(kind byte) error {
	if p.tok.kind != kind {
		return p.fault(strconv.Quote(string(kind)))
	}
	return p.advance()
}

// is reports whether the next token is this word.
func (p *parser) is(word string) bool { return p.tok.kind == 'w' && p.tok.text == word }

// name reads a name, bare or in quotes.
func (p *parser) name(what string) (string, error) {
	text := p.tok.text
	if p.tok.kind != 's' && p.tok.kind != 'w' || text == "" || p.tok.kind == 'w' && (text == ":" || text == "_" || text == "...") {
		return "", p.fault(what)
	}
	return text, p.advance()
}

// str reads a string in quotes.
func (p *parser) str(what string) (string, error) {
	if p.tok.kind != 's' {
		return "", p.fault(what)
	}
	text := p.tok.text
	return text, p.advance()
}

func (p *parser) integer(what string) (int64, error) {
	v, err := strconv.ParseInt(p.tok.text, 10, 64)
	if p.tok.kind != 'w' || err != nil {
		return 0, p.fault(what)
	}
	return v, p.advance()
}

// statements reads the lines of a scope to its end. f is the function whose body it is; depth
// is 0 for the text itself and for functions.
func (p *parser) statements(s *scopeText, f *Function, depth int) error {
	if depth > mostBodies {
		return p.fail(p.tok.at, "graphs are nested more than %d levels deep", mostBodies)
	}
	for {
		switch {
		case p.tok.kind == '\n':
			if err := p.advance(); err != nil {
				return err
			}
			continue
		case p.tok.kind == 0 && depth == 0 && f == nil:
			return nil
		case p.tok.kind == '}' && (depth > 0 || f != nil):
			return p.advance()
		}
		if err := p.statement(s, f, depth); err != nil {
			return err
		}
		if p.tok.kind != '\n' && p.tok.kind != 0 && p.tok.kind != '}' {
			return p.fault("the end of the line")
		}
	}
}

func (p *parser) statement(s *scopeText, f *Function, depth int) error {
	if p.tok.kind == 'w' && statements[p.tok.text] {
		at, word := p.tok.at, p.tok.text
		if err := p.advance(); err != nil {
			return err
		}
		switch {
		case word == "in":
			return p.input(s)
		case word == "init":
			return p.initializer(s)
		case word == "out":
			return p.output(s)
		case word == "opset" && f != nil:
			return p.opset(&f.Opsets)
		case word == "attr" && f != nil:
			return p.parameter(f)
		case word == "opset" && depth == 0:
			return p.opset(&p.m.Opsets)
		case depth == 0 && f == nil && word != "attr":
			return p.head(s, word)
		}
		return p.fail(at, "found %q: expected in, init, out or a node", word)
	}
	return p.node(s, depth)
}

// head reads a statement about the model.
func (p *parser) head(s *scopeText, word string) (err error) {
	switch word {
	case "ir":
		p.m.IRVersion, err = p.integer("a version")
	case "producer":
		p.m.Producer, err = p.str("a string")
	case "graph":
		s.g.Name, err = p.name("a name")
	case "meta":
		var e Prop
		if e.Key, err = p.str("a key in quotes"); err == nil {
			e.Value, err = p.str("a value in quotes")
		}
		p.m.Props = append(p.m.Props, e)
	default:
		return p.function()
	}
	return err
}

func (p *parser) opset(list *[]Opset) (err error) {
	var o Opset
	if _, number := strconv.ParseInt(p.tok.text, 10, 64); p.tok.kind != 'w' || number != nil {
		bareName := p.tok.kind == 'w'
		if o.Domain, err = p.name("a domain or a version"); err != nil {
			return err
		}
		if bareName && o.Domain == standardDomain {
			o.Domain = ""
		}
	}
	o.Version, err = p.integer("a version")
	*list = append(*list, o)
	return err
}

func (p *parser) function() (err error) {
	f := &Function{}
	if f.Domain, f.Name, f.Overload, err = p.operator(); err != nil {
		return err
	}
	if err := p.take('{'); err != nil {
		return err
	}
	s := &scopeText{g: &Graph{}}
	if err := p.statements(s, f, 0); err != nil {
		return err
	}
	f.Body = s.g
	p.m.Functions = append(p.m.Functions, f)
	return p.build(s, nil)
}

// parameter reads an attribute of a function, possibly with its default.
func (p *parser) parameter(f *Function) error {
	at := p.tok.at
	name, err := p.name("the name of an attribute")
	if err != nil {
		return err
	}
	if p.tok.kind != '=' {
		f.Attrs = append(f.Attrs, name)
		return nil
	}
	a, bodies, err := p.value(name, 0)
	if err == nil && len(bodies) > 0 {
		err = p.fail(at, "the default of attribute %q is a graph: expected a plain value", Short(name))
	}
	f.Defaults = append(f.Defaults, a)
	return err
}

func (p *parser) input(s *scopeText) (err error) {
	in := nameText{at: p.tok.at, t: &Tensor{}}
	if in.name, err = p.name("the name of an input"); err != nil {
		return err
	}
	if p.tok.kind == 'w' {
		in.t.Declared, err = p.declared()
	}
	s.ins = append(s.ins, in)
	return err
}

func (p *parser) initializer(s *scopeText) (err error) {
	in := nameText{at: p.tok.at, t: &Tensor{}}
	if in.name, err = p.name("the name of an initializer"); err != nil {
		return err
	}
	if in.t.Data, err = p.data(in.name, false); err != nil {
		return err
	}
	if p.tok.kind == 'w' {
		if k := slices.Index(originWords[1:], p.tok.text); k >= 0 {
			in.t.Origin = Origin(k + 1)
			if err := p.advance(); err != nil {
				return err
			}
		}
	}
	if in.t.Overridable = p.is(wordInput); in.t.Overridable {
		if err := p.advance(); err != nil {
			return err
		}
	}
	if p.is(":") {
		if err := p.advance(); err != nil {
			return err
		}
		in.t.Declared, err = p.declared()
	}
	s.inits = append(s.inits, in)
	return err
}

func (p *parser) output(s *scopeText) (err error) {
	out := nameText{at: p.tok.at}
	out.name, err = p.name("the name of an output")
	s.outs = append(s.outs, out)
	return err
}

// names reads tensors up to the mark that ends the list.
func (p *parser) names(end byte) (list []nameText, err error) {
	for p.tok.kind != end {
		if len(list) > 0 {
			if err := p.take(','); err != nil {
				return nil, err
			}
		}
		x := nameText{at: p.tok.at}
		if p.is("_") {
			err = p.advance()
		} else {
			x.name, err = p.name("a tensor, or _ for none")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, p.advance()
}

// operator reads domain::Op|overload, or domain and operator in quotes.
func (p *parser) operator() (domain, op, overload string, err error) {
	if p.tok.kind == 's' {
		domain = p.tok.text
		if err := p.advance(); err != nil {
			return "", "", "", err
		}
		op, err = p.str("an operator in quotes, after its domain")
	} else {
		op, err = p.name("an operator")
		if d, name, ok := strings.Cut(op, "::"); ok {
			domain, op = d, name
		}
		if domain == standardDomain {
			domain = ""
		}
	}
	if err == nil && op == "" {
		err = p.fault("an operator")
	}
	if err == nil && p.tok.kind == '|' {
		if err = p.advance(); err == nil {
			overload, err = p.name("an overload")
		}
	}
	return domain, op, overload, err
}

func (p *parser) node(s *scopeText, depth int) (err error) {
	x := nodeText{n: &Node{}}
	n := x.n
	if x.out, err = p.names('='); err != nil {
		return err
	}
	if n.Domain, n.Op, n.Overload, err = p.operator(); err != nil {
		return err
	}
	if err := p.take('('); err != nil {
		return err
	}
	if x.in, err = p.names(')'); err != nil {
		return err
	}
	for {
		switch {
		case p.is(":"):
			err = p.outputTypes(&x)
		case p.tok.kind == 'w' || p.tok.kind == 's':
			err = p.attribute(&x, depth)
		case p.tok.kind == '#':
			if err = p.advance(); err == nil {
				n.Name, err = p.name("the node's name")
			}
		case p.tok.kind == '{':
			err = p.props(n)
		case p.tok.kind == '@':
			err = p.places(&x)
		default:
			x.attrs = nil
			s.nodes = append(s.nodes, x)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *parser) attribute(x *nodeText, depth int) error {
	at := p.tok.at
	name, err := p.name("the name of an attribute")
	if err != nil {
		return err
	}
	if x.attrs[name] {
		return p.fail(at, "attribute %q occurs twice in one node: expected once", Short(name))
	}
	if p.tok.kind != '=' {
		return p.fault(`"=" after an attribute's name`)
	}
	if x.attrs == nil {
		x.attrs = map[string]bool{}
	}
	x.attrs[name] = true
	a, bodies, err := p.value(name, depth)
	x.n.Attrs, x.bodies = append(x.n.Attrs, a), append(x.bodies, bodies...)
	return err
}

// outputTypes reads the declared types of the node's outputs.
func (p *parser) outputTypes(x *nodeText) error {
	for sep := true; sep; sep = p.tok.kind == ',' {
		if len(x.types) == len(x.out) {
			return p.fault("at most one type for each output")
		}
		if err := p.advance(); err != nil { // the colon or a comma
			return err
		}
		var d *Declared
		var err error
		if p.is("_") {
			err = p.advance()
		} else {
			d, err = p.declared()
		}
		if err != nil {
			return err
		}
		x.types = append(x.types, d)
	}
	return nil
}

func (p *parser) places(x *nodeText) error {
	for sep := true; sep; sep = p.tok.kind == ',' {
		if len(x.places) == len(x.out) {
			return p.fault("at most one place for each output")
		}
		if err := p.advance(); err != nil {
			return err
		}
		if p.tok.kind != 'w' {
			return p.fault("a place, such as arena:128:24, or _ for none")
		}
		x.places = append(x.places, p.tok.text)
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

// props reads {"key"="value", ...}.
func (p *parser) props(n *Node) error {
	for sep := true; sep; sep = p.tok.kind == ',' {
		if err := p.advance(); err != nil { // the brace or a comma
			return err
		}
		key, err := p.str("a key in quotes")
		if err != nil {
			return err
		}
		if err := p.take('='); err != nil {
			return err
		}
		value, err := p.str("a value in quotes")
		if err != nil {
			return err
		}
		n.Props = append(n.Props, Prop{key, value})
	}
	return p.take('}')
}

// nameScope resolves the names of a scope.
type nameScope struct {
	g     *Graph
	ids   map[string]TensorID
	outer *nameScope
}

// build defines the tensors of a scope in the order of package onnx (initializers, inputs,
// outputs of nodes, captures), and then resolves what nodes read.
func (p *parser) build(s *scopeText, outer *nameScope) error {
	b := &nameScope{g: s.g, ids: map[string]TensorID{}, outer: outer}
	for _, x := range s.inits {
		if err := p.define(b, x); err != nil {
			return err
		}
	}
	for _, x := range s.ins {
		if err := p.define(b, x); err != nil {
			return err
		}
		b.g.Inputs = append(b.g.Inputs, b.ids[x.name])
	}
	for _, x := range s.nodes {
		for k, out := range x.out {
			if out.name == "" {
				x.n.Outputs = append(x.n.Outputs, None)
				continue
			}
			out.t = &Tensor{}
			if k < len(x.types) {
				out.t.Declared = x.types[k]
			}
			if err := p.define(b, out); err != nil {
				return err
			}
			x.n.Outputs = append(x.n.Outputs, b.ids[out.name])
		}
		b.g.Nodes = append(b.g.Nodes, x.n)
		if x.places != nil {
			x.n.Props = append(x.n.Props, Prop{placeKey, placesText(b.g, x.n, x.places)})
		}
	}
	if len(b.g.Tensors) > math.MaxInt32/2 || len(b.g.Nodes) > math.MaxInt32/2 {
		return Errorf("%d nodes and %d tensors: expected fewer than 2^30 of each", len(b.g.Nodes), len(b.g.Tensors))
	}
	return p.resolve(s, b)
}

func (p *parser) resolve(s *scopeText, b *nameScope) error {
	for _, x := range s.nodes {
		for _, in := range x.in {
			id, err := p.find(b, in)
			if err != nil {
				return err
			}
			x.n.Inputs = append(x.n.Inputs, id)
		}
	}
	for _, x := range s.nodes {
		for _, body := range x.bodies {
			if err := p.build(body.s, b); err != nil {
				return err
			}
			if body.attr.Type == AttrGraphs {
				body.attr.Graphs = append(body.attr.Graphs, body.s.g)
			} else {
				body.attr.Graph = body.s.g
			}
		}
	}
	for _, x := range s.outs {
		id, err := p.find(b, x)
		if err != nil {
			return err
		}
		b.g.Outputs = append(b.g.Outputs, id)
	}
	for _, n := range b.g.Nodes {
		n.SetCaptures()
	}
	b.g.Link()
	return nil
}

func (p *parser) define(b *nameScope, x nameText) error {
	if _, twice := b.ids[x.name]; twice {
		return p.fail(x.at, "%q has two makers: expected names that differ", Short(x.name))
	}
	x.t.Name, x.t.Maker = x.name, None
	b.ids[x.name] = TensorID(len(b.g.Tensors))
	b.g.Tensors = append(b.g.Tensors, x.t)
	return nil
}

// find returns the tensor with that name, of this scope or captured from one around it.
func (p *parser) find(b *nameScope, x nameText) (TensorID, error) {
	if x.name == "" {
		return None, nil
	}
	if id, ok := b.ids[x.name]; ok {
		return id, nil
	}
	if b.outer == nil {
		return None, p.fail(x.at, "nothing makes %q: expected a node output, an input or an initializer", Short(x.name))
	}
	outer, err := p.find(b.outer, x)
	if err != nil {
		return None, err
	}
	if p.captures++; p.captures > len(p.text) { // a name through a hundred levels takes a hundred tensors
		return None, p.fail(x.at, "bodies capture more tensors than the text has bytes")
	}
	id := b.g.NewTensor(x.name)
	b.ids[x.name], b.g.Tensors[id].Capture = id, true
	b.g.Captures = append(b.g.Captures, Capture{Inner: id, Outer: outer})
	return id, nil
}
