package graph

import (
	"io"
	"strconv"
	"strings"
)

// PrintOptions are the options of [Print]. The zero value prints everything that
// [Parse] can read again.
type PrintOptions struct {
	// Elements is the largest number of elements of a tensor that are printed; the
	// elements of a larger one are left out ("..."). 0: 32.
	Elements int64
	// OwnMetadata leaves out metadata that is not onnxmem's: exporters write stack
	// traces there.
	OwnMetadata bool
}

const (
	printedElements = 32
	ownMetadata     = "onnxmem." // prefix of the keys of onnxmem's metadata
	placeKey        = "onnxmem.offset"
)

// Print writes m in its printed form, one line a node; see the package comment. It
// writes while it walks and holds no more than a line. Comments give the types that
// inference found where they differ from the declared ones. It fails only if w does.
func Print(w io.Writer, m *Model, opt PrintOptions) error {
	if opt.Elements == 0 {
		opt.Elements = printedElements
	}
	p := &printer{out: w, opt: opt, source: m.Source}
	p.model(m)
	p.flush()
	return p.err
}

// Text returns the printed form of a model, without options.
func Text(m *Model) string {
	var b strings.Builder
	_ = Print(&b, m, PrintOptions{}) // a Builder never fails
	return b.String()
}

// printer writes whole lines, at least flushAt bytes at once: a writer that escapes what is not
// printable must not see half a character.
type printer struct {
	out    io.Writer
	lines  []byte
	err    error // the first one of out
	opt    PrintOptions
	source *Source
	depth  int
}

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		p.lines = append(p.lines, s...)
	}
	if len(p.lines) >= flushAt && p.lines[len(p.lines)-1] == '\n' {
		p.flush()
	}
}

const flushAt = 4 << 10

func (p *printer) flush() {
	if p.err == nil {
		_, p.err = p.out.Write(p.lines)
	}
	p.lines = p.lines[:0]
}

// begin starts a line.
func (p *printer) begin(parts ...string) {
	for range p.depth {
		p.put("  ")
	}
	p.put(parts...)
}

func (p *printer) model(m *Model) {
	if m.IRVersion != 0 {
		p.begin("ir ", strconv.FormatInt(m.IRVersion, 10), "\n")
	}
	if m.Producer != "" {
		p.begin("producer ", strconv.Quote(m.Producer), "\n")
	}
	p.opsets(m.Opsets)
	for _, e := range m.Props {
		if p.shows(e) {
			p.begin("meta ", strconv.Quote(e.Key), " ", strconv.Quote(e.Value), "\n")
		}
	}
	if m.Graph != nil {
		if m.Graph.Name != "" {
			p.begin("graph ", quoted(m.Graph.Name), "\n")
		}
		p.scope(m.Graph)
	}
	for _, f := range m.Functions {
		p.function(f)
	}
}

func (p *printer) shows(e Prop) bool {
	return !p.opt.OwnMetadata || strings.HasPrefix(e.Key, ownMetadata)
}

func (p *printer) opsets(list []Opset) {
	for _, o := range list {
		p.begin("opset ")
		switch o.Domain {
		case "":
		case standardDomain: // not the domain "" that a reader makes of it
			p.put(strconv.Quote(o.Domain), " ")
		default:
			p.put(quoted(o.Domain), " ")
		}
		p.put(strconv.FormatInt(o.Version, 10), "\n")
	}
}

func (p *printer) function(f *Function) {
	p.begin("function ")
	p.operator(f.Domain, f.Name, f.Overload)
	p.put(" {\n")
	p.depth++
	p.opsets(f.Opsets)
	for _, name := range f.Attrs {
		p.begin("attr ", quoted(name), "\n")
	}
	for _, a := range f.Defaults {
		p.begin("attr ")
		p.attribute(a)
		p.put("\n")
	}
	if f.Body != nil {
		p.scope(f.Body)
	}
	p.depth--
	p.begin("}\n")
}

// scope writes the lines of a graph.
func (p *printer) scope(g *Graph) {
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		p.begin("in ", quoted(t.Name))
		if t.Declared != nil {
			p.put(" ", declaredString(t.Declared))
		}
		p.found(g, []TensorID{id})
		p.put("\n")
	}
	for _, t := range g.Tensors {
		if t.Data != nil {
			p.initializer(t)
		}
	}
	for _, n := range g.Nodes {
		p.node(g, n)
	}
	for _, id := range g.Outputs {
		p.begin("out ", quoted(g.Tensors[id].Name), "\n")
	}
}

func (p *printer) initializer(t *Tensor) {
	p.begin("init ", quoted(t.Name), " ")
	p.data(t.Data)
	if word := originWords[t.Origin]; word != "" {
		p.put(" ", word)
	}
	if t.Overridable {
		p.put(" ", wordInput)
	}
	if t.Declared != nil {
		p.put(" : ", declaredString(t.Declared))
	}
	p.put("\n")
}

// originWords are the words for the origins of initializers.
var originWords = [...]string{OriginParameter: "parameter", OriginBuffer: "buffer", OriginConstant: "constant"}

const wordInput = "input" // an initializer that is also listed as an input

func (p *printer) node(g *Graph, n *Node) {
	p.begin()
	if len(n.Outputs) > 0 {
		p.names(g, n.Outputs)
		p.put(" ")
	}
	p.put("= ")
	p.operator(n.Domain, n.Op, n.Overload)
	p.put("(")
	p.names(g, n.Inputs)
	p.put(")")
	for _, a := range n.Attrs {
		p.put(" ")
		p.attribute(a)
	}
	if n.Name != "" {
		p.put(" #", quoted(n.Name))
	}
	p.declared(g, n)
	p.props(g, n)
	p.found(g, n.Outputs)
	p.put("\n")
}

// names writes tensors, "_" for those left out.
func (p *printer) names(g *Graph, list []TensorID) {
	for k, t := range list {
		if k > 0 {
			p.put(", ")
		}
		if t < 0 {
			p.put("_")
		} else {
			p.put(quoted(g.Tensors[t].Name))
		}
	}
}

// operator writes domain::Op|overload. If a part needs quotes, domain and operator are two
// strings.
func (p *printer) operator(domain, op, overload string) {
	switch {
	case strings.Contains(domain, ":") || strings.Contains(op, ":") || domain == standardDomain || !bare(op) || domain != "" && !bare(domain):
		p.put(strconv.Quote(domain), " ", strconv.Quote(op))
	case domain == "":
		p.put(op)
	default:
		p.put(domain, "::", op)
	}
	if overload != "" {
		p.put("|", quoted(overload))
	}
}

// declared writes the declared types of a node's outputs.
func (p *printer) declared(g *Graph, n *Node) {
	last := -1
	for k, t := range n.Outputs {
		if t >= 0 && g.Tensors[t].Declared != nil {
			last = k
		}
	}
	for k := range last + 1 {
		if k == 0 {
			p.put(" : ")
		} else {
			p.put(", ")
		}
		if t := n.Outputs[k]; t >= 0 && g.Tensors[t].Declared != nil {
			p.put(declaredString(g.Tensors[t].Declared))
		} else {
			p.put("_")
		}
	}
}

// props writes the places of a planned node and its other metadata.
func (p *printer) props(g *Graph, n *Node) {
	list := n.Props
	var places []string
	if k := len(list) - 1; k >= 0 && list[k].Key == placeKey {
		if places = placesOf(g, n, list[k].Value); places != nil {
			list = list[:k]
		}
	}
	first := true
	for _, e := range list {
		if !p.shows(e) {
			continue
		}
		if first {
			p.put(" {")
		} else {
			p.put(", ")
		}
		first = false
		p.put(strconv.Quote(e.Key), "=", strconv.Quote(e.Value))
	}
	if !first {
		p.put("}")
	}
	if places != nil {
		p.put(" @ ", strings.Join(places, ", "))
	}
}

// placesOf splits the places of a node's outputs, "_" for an output without one. It returns
// nil if placesText would not give the same text.
func placesOf(g *Graph, n *Node, text string) []string {
	var places []string
	rest, some := text, false
	for _, t := range n.Outputs {
		place := "_"
		if t >= 0 {
			if after, ok := strings.CutPrefix(rest, g.Tensors[t].Name+"="); ok {
				place, rest, _ = strings.Cut(after, " ")
				if !bare(place) {
					return nil
				}
				some = true
			}
		}
		places = append(places, place)
	}
	for some && places[len(places)-1] == "_" {
		places = places[:len(places)-1]
	}
	if !some || placesText(g, n, places) != text {
		return nil
	}
	return places
}

// placesText is the metadata entry of the places of a node's outputs.
func placesText(g *Graph, n *Node, places []string) string {
	var entries []string
	for k, place := range places {
		if t := n.Outputs[k]; t >= 0 && place != "_" {
			entries = append(entries, g.Tensors[t].Name+"="+place)
		}
	}
	return strings.Join(entries, " ")
}

// found writes the inferred types of tensors as a comment, if one of them says more than the
// file does.
func (p *printer) found(g *Graph, list []TensorID) {
	var types []string
	news := false
	for _, id := range list {
		word := "_"
		if id >= 0 {
			t := g.Tensors[id]
			if t.Type.Kind != KindUnknown {
				word = t.Type.String()
			}
			if t.Dynamic != "" {
				word += " dynamic"
			}
			news = news || word != "_" && (t.Declared == nil || word != declaredString(t.Declared))
		}
		types = append(types, word)
	}
	if news {
		p.put("  // ", strings.Join(types, ", "))
	}
}
