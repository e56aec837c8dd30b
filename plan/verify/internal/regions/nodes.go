package regions

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/plan/verify/internal/same"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// sliced compares the planned graph with the graph before the slices. It goes through the
// nodes once, in their order, and finds what each tensor holds of which tensor of the graph
// before. A node of a slice must make rows from the rows that its operator needs for them;
// every other node must be the source's.
type sliced struct {
	v          *prover
	b          *before
	g          *graph.Graph // planned, without the nodes that a limit added
	tags       []*sliceNode // by node: what its metadata say; nil: it is in no slice
	holds      []contents   // by tensor
	names      [][]string   // by tensor: the names that it has in the source, if it has several
	copies     map[string]graph.TensorID
	used       map[string]bool           // copies that there are
	parts      map[graph.TensorID]string // initializers with rows of one of the source: its name
	data       constants
	same       same.Node
	weightings map[graph.TensorID]*weighting // by the outputs of Softmax nodes and products
	random     []bool                        // by node of the graph before: computed twice, it may differ
	at         map[graph.TensorID]rowPlace   // where the rows of what slices make are likely to lie
	named      map[string]graph.TensorID     // tensors of the planned graph; nil: not asked for yet

	regions   []regionFound
	unchecked bool // something could not be compared
}

// tensor returns the tensor of the graph before that a name stands for, none if there
// is none.
func (c *sliced) tensor(name string) graph.TensorID {
	if _, copied := c.copies[name]; copied {
		c.used[name] = true
	}
	return c.lookup(name)
}

// lookup is like tensor, but does not note that there is the copy.
func (c *sliced) lookup(name string) graph.TensorID {
	if t, copied := c.copies[name]; copied {
		return t
	}
	t, _ := c.b.find(name)
	return t
}

// compareSlices compares the planned graph with the source. It reports whether
// everything could be compared, and of which regions copies could not be.
func (v *prover) compareSlices(b *before, g *graph.Graph, tags []*sliceNode) (all bool, partial []bool) {
	c := &sliced{
		v: v, b: b, g: g, tags: tags, holds: make([]contents, len(g.Tensors)),
		weightings: map[graph.TensorID]*weighting{},
		copies:     map[string]graph.TensorID{}, used: map[string]bool{}, parts: map[graph.TensorID]string{},
		data: constants{planned: constant.NewFiles(v.Model), source: constant.NewFiles(b.m), compared: v.planned.Compared}, random: graph.Effects(b.g),
		regions: make([]regionFound, len(v.Plan.Slices.Regions)),
	}
	defer c.data.planned.Close()
	defer c.data.source.Close()
	c.same.Outer = func(t, of graph.TensorID) bool { return c.wants(t, of) == "" }
	if v.Model.Source != nil && b.m.Source != nil {
		c.same.Source, c.same.Other = v.Model.Source.Bytes, b.m.Source.Bytes
	}
	c.data.same = c.same
	c.aliases()
	c.readCopies()
	c.readInitializers()
	c.functions()
	for i := range c.regions {
		c.regions[i].begin(v.Plan.Slices.Regions[i].Nodes)
	}
	c.at = c.places()
	for i, n := range g.Nodes {
		c.node(graph.NodeID(i), n)
	}
	c.outputs()
	for i := range c.regions {
		c.recorded(i)
	}
	for _, x := range v.Plan.Slices.Copies {
		if !c.used[x.Tensor] {
			v.Fault(Code, "slices: copy %q: expected a node that makes it, found none", graph.Short(x.Tensor))
		}
	}
	for i := range c.regions {
		partial = append(partial, c.regions[i].partial && !c.regions[i].faulty)
	}
	return !c.unchecked && !c.data.unread, partial
}

// aliases collects the names of tensors that several steps make: the last one has the
// name that the source has.
func (c *sliced) aliases() {
	if c.v.planned.Originals == nil {
		return
	}
	c.names = make([][]string, len(c.g.Tensors))
	for t, first := range c.v.planned.Originals {
		if graph.TensorID(t) != first {
			c.names[first] = append(c.names[first], c.g.Tensors[t].Name)
		}
	}
}

// isNamed reports whether a tensor has a name, or one of the steps that make it again.
func (c *sliced) isNamed(t graph.TensorID, is func(name string) bool) bool {
	if is(c.g.Tensors[t].Name) {
		return true
	}
	if c.names != nil {
		for _, name := range c.names[t] {
			if is(name) {
				return true
			}
		}
	}
	return false
}

// before returns the tensor of the graph before that has the name of a tensor, none if
// there is none.
func (c *sliced) before(t graph.TensorID) (of graph.TensorID) {
	of = none
	c.isNamed(t, func(name string) bool {
		of = c.tensor(name)
		return of != none
	})
	return of
}

// readCopies reads which tensors are computed once for each reader.
func (c *sliced) readCopies() {
	for _, x := range c.v.Plan.Slices.Copies {
		of, source := c.b.find(x.Of)
		_, taken := c.b.names[x.Tensor]
		_, twice := c.copies[x.Tensor]
		switch {
		case source == nil || source.Maker < 0:
			c.v.Fault(Code, "slices: copy %q: expected a node of the source that makes %q, found none", graph.Short(x.Tensor), graph.Short(x.Of))
		case taken || twice:
			c.v.Fault(Code, "slices: copy %q: expected a name that nothing else has", graph.Short(x.Tensor))
		default:
			if maker := source.Maker; c.random[maker] {
				c.v.Fault(Code, "slices: copy %q: expected a node that computes the same each time, found %s", graph.Short(x.Tensor), c.b.g.Label(maker))
			}
			c.copies[x.Tensor] = of
		}
	}
}

// hasRows reports whether an initializer has rows [lo, hi) of an axis of a tensor of the
// source: of an initializer, or of integers that follow from the dims.
func (c *sliced) hasRows(planned *graph.Data, of graph.TensorID, axis int, lo, hi int64) bool {
	t := c.b.g.Tensors[of]
	if t.Data != nil {
		return c.data.rows(planned, t.Data, axis, lo, hi)
	}
	list, _ := c.b.values[of].Ints()
	return planned.Type == t.Type.Elem && c.data.integerRows(planned, list, c.b.shape(of), axis, lo, hi)
}

// readInitializers compares the inputs and initializers with those of the source.
func (c *sliced) readInitializers() {
	v, planned := c.v, c.v.Tensors(c.g)
	ids := make(map[*graph.Tensor]graph.TensorID, len(c.g.Tensors))
	for id, t := range c.g.Tensors {
		ids[t] = graph.TensorID(id)
	}
	listed := map[*graph.Tensor]bool{}
	for _, x := range v.Plan.Slices.Weights {
		t := planned[x.Tensor]
		of, source := c.b.find(x.Of)
		switch {
		case t == nil || t.Data == nil || t.Overridable || listed[t]:
			v.Fault(Code, "slices: weight %q: expected an initializer that is listed once", graph.Short(x.Tensor))
			continue
		case source == nil || source.Overridable || source.Data == nil && !c.b.follows(of):
			v.Fault(Code, "slices: weight %q: expected %q to be an initializer of the source, or integers that follow from the dims", graph.Short(x.Tensor), graph.Short(x.Of))
		case x.Axis < 0 || x.Axis >= len(t.Data.Dims) || !c.hasRows(t.Data, of, x.Axis, x.From, x.From+t.Data.Dims[x.Axis]):
			v.Fault(Code, "slices: weight %q: expected rows of axis %d of %q, from row %d on, found other elements", graph.Short(x.Tensor), x.Axis, graph.Short(x.Of), x.From)
		default:
			c.holds[ids[t]] = c.b.rowsOf(of, x.Axis, x.From, x.From+t.Data.Dims[x.Axis])
			c.parts[ids[t]] = c.b.g.Tensors[c.holds[ids[t]].of].Name
		}
		listed[t] = true
	}
	for _, name := range v.Plan.Slices.Constants {
		t := planned[name]
		of, source := c.b.find(name)
		switch {
		case t == nil || t.Data == nil || t.Overridable || listed[t]:
			v.Fault(Code, "slices: constant %q: expected an initializer that is listed once", graph.Short(name))
			continue
		case source == nil && c.b.lacks: // a shape of a product that reads a constant as it lies
			c.unchecked, listed[t] = true, true
			c.holds[ids[t]] = contents{kind: hasFault}
			continue
		case source == nil || source.Maker < 0:
			v.Fault(Code, "slices: constant %q: expected a node of the source that makes it", graph.Short(name))
		default:
			want, known := c.b.values[of].Ints()
			found, there := t.Data.Integers(int64(len(want)))
			if !known || !there || t.Data.Type != source.Type.Elem || !slices.Equal(t.Data.Dims, c.b.shape(of)) || !slices.Equal(found, want) {
				v.Fault(Code, "slices: constant %q: expected %v of shape %v, which follow from the dims, found %v of shape %v", graph.Short(name), want, c.b.shape(of), found, t.Data.Dims)
				break
			}
			c.holds[ids[t]] = all(of)
		}
		listed[t] = true
	}
	for id, t := range c.g.Tensors {
		of, source := c.b.find(t.Name)
		switch {
		case listed[t]:
		case source == nil || t.Data == nil && !t.Input:
			continue
		case t.Data != nil && source.Data == nil:
			v.Fault(Code, "slices: initializer %q: a node of the source makes it: expected it in the list of constants", graph.Short(t.Name))
		case t.Data != nil && (t.Overridable != source.Overridable || !c.data.equal(t.Data, source.Data)):
			v.Fault(Code, "slices: initializer %q: expected the elements that it has in the source, found others", graph.Short(t.Name))
		default:
			c.holds[id] = all(of)
			continue
		}
		if c.holds[id].kind == hasNothing {
			c.holds[id].kind = hasFault
		}
	}
	names := func(g *graph.Graph, list []graph.TensorID) []string {
		var out []string
		for _, t := range list {
			out = append(out, g.Tensors[t].Name)
		}
		return out
	}
	if want, found := names(c.b.g, c.b.g.Inputs), names(c.g, c.g.Inputs); !slices.Equal(want, found) {
		v.Fault(Code, "slices: expected the inputs of the source, %q, found %q", graph.Short(fmt.Sprint(want)), graph.Short(fmt.Sprint(found)))
	}
}

// outputs checks that the outputs of the graph are those of the source.
func (c *sliced) outputs() {
	if len(c.g.Outputs) != len(c.b.g.Outputs) {
		c.v.Fault(Code, "slices: expected the %s of the source, found %d", subject.Count(len(c.b.g.Outputs), "output"), len(c.g.Outputs))
		return
	}
	for i, t := range c.g.Outputs {
		of := c.b.g.Outputs[i]
		name := c.b.g.Tensors[of].Name
		if !c.isNamed(t, func(have string) bool { return have == name }) {
			c.v.Fault(Code, "slices: output %d: expected %q, found %q", i, graph.Short(name), graph.Short(c.g.Tensors[t].Name))
		} else if wrong := c.wants(t, of); wrong != "" {
			c.v.Fault(Code, "slices: output %d: %s", i, wrong)
		}
	}
}

// functions checks that the local functions are those of the source, but for those that
// belong to the domain onnxmem.
func (c *sliced) functions() {
	for _, f := range c.v.Model.Functions {
		of := function(c.b.m, f)
		switch {
		case of == nil && (f.Own() || c.v.functions[f]):
		case of == nil:
			c.v.Fault(Code, "slices: function %q: expected no function that the source lacks", graph.Short(f.Name))
		case !c.sameFunction(f, of):
			c.v.Fault(Code, "slices: function %q: expected that of the source, found another body", graph.Short(f.Name))
		}
	}
	for _, o := range c.b.m.Opsets {
		if found := c.v.Model.Opset(o.Domain); found != o.Version {
			c.v.Fault(Code, "slices: operators of domain %q: expected version %d, as in the source, found %d", graph.Short(o.Domain), o.Version, found)
		}
	}
}

func (c *sliced) sameFunction(f, of *graph.Function) bool {
	same := c.same
	same.Outer = func(_, _ graph.TensorID) bool { return false }
	if !slices.Equal(f.Attrs, of.Attrs) || len(f.Defaults) != len(of.Defaults) || len(f.Opsets) != len(of.Opsets) {
		return false
	}
	for i, a := range f.Defaults {
		if a.Name != of.Defaults[i].Name || !same.Attribute(a, of.Defaults[i]) {
			return false
		}
	}
	for i, o := range f.Opsets {
		if o != of.Opsets[i] {
			return false
		}
	}
	return same.Body(f.Body, of.Body)
}

// wants says what is wrong with a tensor that must hold all of another one; "" if it
// does.
func (c *sliced) wants(t, of graph.TensorID) string {
	switch {
	case t < 0 && of < 0:
		return ""
	case of < 0:
		return fmt.Sprintf("expected none, found %s", c.b.text(c.holds[t]))
	case t < 0:
		return fmt.Sprintf("expected %s, found none", c.b.text(all(of)))
	case c.holds[t].kind == hasFault || c.b.whole(c.holds[t], of):
		return ""
	}
	if want, stated := c.b.stated[of]; stated {
		if found, known := c.vector(t); !known || !slices.Equal(found, want) {
			return fmt.Sprintf("expected a constant %v, found %v", want, found)
		}
		return ""
	}
	return fmt.Sprintf("expected %s, found %s%s", c.b.text(all(of)), c.b.text(c.holds[t]), c.made(t))
}

// mostSteps bounds how far a message looks back.
const mostSteps = 64

// made says which node made a tensor, for a message, and which one took the rows that it
// was made of.
func (c *sliced) made(t graph.TensorID) string {
	maker := c.g.Tensors[t].Maker
	if maker < 0 {
		return ""
	}
	text := ", which " + c.g.Label(maker) + " makes"
	for range mostSteps {
		n := c.g.Nodes[maker]
		p := c.tags[maker]
		if p == nil || p.role != "node" && p.role != "put" && p.role != "sum" && !slices.Contains(pieceRoles, p.role) {
			break
		}
		from := n.Inputs
		if p.role != "node" && p.role != roleBelow && p.role != roleShare && len(from) > 1 && c.holds[from[1]].kind != hasNothing {
			from = from[1:] // what it adds to the others
		}
		next := graph.NodeID(none)
		for _, u := range from {
			if u >= 0 && c.g.Tensors[u].Maker >= 0 && c.tags[c.g.Tensors[u].Maker] != nil && (c.holds[u].kind == hasRows || c.holds[u].kind == hasSum || c.holds[u].kind >= hasMost) {
				next = c.g.Tensors[u].Maker
				break
			}
		}
		if next < 0 {
			break
		}
		if p := c.tags[next]; p.role == "rows" {
			return text + " of what " + c.g.Label(next) + " takes"
		}
		maker = next
	}
	return text
}

// node checks a node, and finds what its outputs hold.
func (c *sliced) node(id graph.NodeID, n *graph.Node) {
	wrong := ""
	p := c.tags[id]
	switch {
	case p == nil:
		wrong = c.outside(n)
	case p.role == "node":
		wrong = c.copied(p, n)
	case p.role == "rows":
		wrong = c.taken(p, n)
	case p.role == "shape":
		wrong = c.lengths(p, n)
	case p.role == "base":
		wrong = c.room(p, n)
	case p.role == "put":
		wrong = c.put(p, n)
	case p.role == "sum":
		wrong = c.added(p, n)
	case p.role == "mean":
		wrong = c.divided(p, n)
	case slices.Contains(pieceRoles, p.role):
		wrong = c.piece(p, n)
	default:
		wrong = fmt.Sprintf("expected role node, rows, shape, base, put, sum, mean or one of an attention in pieces, found %q", graph.Short(p.role))
	}
	if wrong == "" {
		return
	}
	for _, t := range n.Outputs {
		if t >= 0 {
			c.holds[t] = contents{kind: hasFault}
		}
	}
	where := "outside of the regions"
	if p != nil {
		c.partly(p)
		c.regions[p.region].faulty = true
		where = fmt.Sprintf("region %d, slice %d", p.region, p.slice)
	}
	c.v.Fault(Code, "slices: %s: %s: %s", where, c.g.Label(id), wrong)
}

// outside says what is wrong with a node of no slice; "" if it is the source's.
func (c *sliced) outside(n *graph.Node) string {
	k := subject.FirstOutput(n)
	if k == none {
		c.unchecked = true
		return ""
	}
	if c.b.lacks && c.ofProduct(n) {
		return ""
	}
	of := c.before(n.Outputs[k])
	if of == none || c.b.g.Tensors[of].Maker < 0 {
		return fmt.Sprintf("expected a node of the source, which has none that makes %q", graph.Short(c.g.Tensors[n.Outputs[k]].Name))
	}
	old := c.b.g.Nodes[c.b.g.Tensors[of].Maker]
	switch {
	case n.Op != old.Op || n.Domain != old.Domain || n.Overload != old.Overload:
		return fmt.Sprintf("expected operator %s, as in the source, found %s", old.OpName(), n.OpName())
	case len(n.Inputs) != len(old.Inputs):
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(old.Inputs), "input"), len(n.Inputs))
	case len(n.Outputs) != len(old.Outputs):
		return fmt.Sprintf("expected %s, as in the source, found %d", subject.Count(len(old.Outputs), "output"), len(n.Outputs))
	}
	for j, t := range n.Inputs {
		if wrong := c.wants(t, old.Inputs[j]); wrong != "" {
			return fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	if bodies := len(n.Bodies()) > 0; bodies && c.b.inner {
		c.unchecked = true
	} else if name := c.same.Attributes(n, old); name != "" {
		return fmt.Sprintf("attribute %q: expected that of the source, found another", graph.Short(name))
	}
	for k, t := range n.Outputs {
		switch of := old.Outputs[k]; {
		case t < 0 && of < 0:
		case t < 0 || of < 0 || c.before(t) != of:
			return fmt.Sprintf("output %d: expected that of the source, found another", k)
		default:
			c.holds[t] = c.b.all(of)
		}
	}
	return ""
}

// ofProduct reports whether a node belongs to a product that reads a constant as it
// lies, which is checked elsewhere. The nodes in front of it have names that the source
// does not have.
func (c *sliced) ofProduct(n *graph.Node) bool {
	of := c.before(n.Outputs[subject.FirstOutput(n)])
	if of == none {
		c.unchecked = true
		for _, t := range n.Outputs {
			if t >= 0 {
				c.holds[t] = contents{kind: hasFault}
			}
		}
		return true
	}
	for _, f := range c.v.Plan.Folded.Products {
		if f.Subgraph == nil && f.Tensor == c.b.g.Tensors[of].Name {
			c.holds[n.Outputs[0]] = all(of)
			return true
		}
	}
	return false
}
