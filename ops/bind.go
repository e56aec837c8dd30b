package ops

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// place is an axis of an input whose length the file leaves open.
type place struct {
	t     *graph.Tensor
	axis  int
	text  string // its name in the file; if it has none, as at
	at    string // its place: x[0]
	given *int64 // the length given for the place, nil if there is none
}

// openAxes lists the open axes of a tensor.
func openAxes(t *graph.Tensor) []place {
	d := t.Declared
	if d == nil || d.Type.Kind != graph.KindTensor {
		return nil
	}
	var list []place
	for axis, n := range d.Type.Shape {
		if n.Exact() {
			continue
		}
		p := place{t: t, axis: axis, text: symbolOf(d, axis), at: placeName(t, axis)}
		if p.text == "" {
			p.text = p.at
		}
		list = append(list, p)
	}
	return list
}

// placeName names an axis of a tensor by its place.
func placeName(t *graph.Tensor, axis int) string { return fmt.Sprintf("%s[%d]", t.Name, axis) }

// mostAxes bounds the rank that places can give an input.
const mostAxes = 64

// symbolOf is the name of an axis, "" if it has none. Paddle writes "?" for each
// open axis: these need not be equal.
func symbolOf(d *graph.Declared, axis int) string {
	if s := d.Symbols[axis]; s != "?" {
		return s
	}
	return ""
}

// binder binds the dimensions of the main graph's inputs.
type binder struct {
	inf    *inferrer
	places []place
	plain  map[string]bool // names that an expression may contain
	used   map[string]bool // names and places that are bound

	identities map[string]int64 // of the lengths that are known only at run time
}

// bindInputs sets the lengths of every dimension of the main graph's inputs, and
// the values of those inputs that have one.
//
// A dimension is a plain symbol, unless its text is an expression whose names are
// all symbols of other dimensions. Plain symbols are bound first. A length that is
// given for a place holds there; if all such lengths of a symbol agree, and none is
// given for the symbol itself, it is the length of the symbol.
func (inf *inferrer) bindInputs() error {
	inf.symbols = symbols{}
	for _, name := range slices.Sorted(maps.Keys(inf.opt.Dims)) {
		if v := inf.opt.Dims[name]; v < 0 {
			return graph.Errorf("dimension %q is %d: expected a length >= 0", graph.Short(name), v)
		}
	}
	b := &binder{inf: inf, plain: map[string]bool{}, used: map[string]bool{}, identities: map[string]int64{}}
	for name := range inf.opt.Dims {
		b.plain[name] = true
	}
	for _, bind := range []func() error{b.collect, b.byValue, b.byPlace, b.byName} {
		if err := bind(); err != nil {
			return err
		}
	}
	if inf.opt.StrictDims && len(inf.unbound) > 0 {
		return unboundError(inf.unbound[0])
	}
	inf.result.Spare.Dims = b.spare()
	if s := inf.result.Spare.Dims; len(s) > 0 && !inf.opt.SpareDims {
		return b.unused(s[0])
	}
	return inf.bindValues()
}

// collect lists the places.
func (b *binder) collect() error {
	g := b.inf.model.Graph
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		d := t.Declared
		if d == nil || d.Type.Kind == graph.KindUnknown || d.Type.Kind == graph.KindTensor && d.Type.Elem == graph.Undefined {
			return inputError(t, "graph input without a type: expected an element type and a shape")
		}
		t.Type = d.Type
		t.Type.Shape = slices.Clone(d.Type.Shape)
		if d.Type.Kind == graph.KindTensor && !d.Type.Ranked {
			rank := b.rank(t.Name)
			if rank < 0 {
				return inputError(t, fmt.Sprintf("graph input without a shape: say --dim '%s[0]=N' and so on for each axis", t.Name))
			}
			t.Type = graph.TensorOf(d.Type.Elem, make([]graph.Dim, rank)...)
			for axis := range rank {
				at := placeName(t, axis)
				b.places = append(b.places, place{t: t, axis: axis, text: at, at: at})
			}
			continue
		}
		b.places = append(b.places, openAxes(t)...)
	}
	for _, p := range b.places {
		b.plain[p.text] = true
	}
	return nil
}

// rank is the number of axes of an input that the file gives no shape: up to the last one
// whose length is given by its place, or those of its value; -1 if neither is given.
func (b *binder) rank(name string) int {
	if v, ok := b.inf.opt.Values[name]; ok && v.Shape != nil {
		return len(v.Shape)
	}
	rank := -1
	for key := range b.inf.opt.Dims {
		if i, ok := strings.CutPrefix(key, name+"["); ok && strings.HasSuffix(i, "]") {
			if axis, err := strconv.Atoi(strings.TrimSuffix(i, "]")); err == nil && axis >= 0 && axis < mostAxes {
				rank = max(rank, axis+1)
			}
		}
	}
	return rank
}

// byValue gives the axes of an input that has a value the lengths of the value.
func (b *binder) byValue() error {
	for i := range b.places {
		p := &b.places[i]
		v, ok := b.inf.opt.Values[p.t.Name]
		if !ok || v.Shape == nil {
			continue
		}
		if len(v.Shape) != len(p.t.Type.Shape) {
			return valueError(p.t, v, p.t.Type)
		}
		p.given = &v.Shape[p.axis]
	}
	return nil
}

// byPlace gives the axes that are named by their place their lengths.
func (b *binder) byPlace() error {
	for i := range b.places {
		p := &b.places[i]
		v, ok := b.inf.opt.Dims[p.at]
		if !ok {
			continue
		}
		b.used[p.at] = true
		if p.given != nil && *p.given != v {
			return inputError(p.t, fmt.Sprintf("its value has length %d along axis %d, but dimension %q is %d", *p.given, p.axis, p.at, v))
		}
		p.given = &v
	}
	return nil
}

// expression parses the text of a dimension if it is an expression of others.
func (b *binder) expression(text string) (expr, bool) {
	e, ok := parseExpr(text)
	if !ok || !e.compound {
		return expr{}, false
	}
	for _, name := range e.names {
		if !b.plain[name] || name == text {
			return expr{}, false
		}
	}
	return e, true
}

// byName gives the remaining axes their lengths: plain symbols first, then
// expressions of them.
func (b *binder) byName() error {
	inf := b.inf
	for _, expressions := range []bool{false, true} {
		for _, p := range b.places {
			e, compound := b.expression(p.text)
			if _, done := inf.symbols[p.text]; done || compound != expressions {
				continue
			}
			v, known, err := b.length(p.text)
			if err != nil {
				return err
			}
			if !known && b.onlyByPlace(p.text) {
				continue
			}
			d := BoundDim{Name: p.text, Value: v, Place: p.at}
			switch follows, ok := e.value(inf.symbols); {
			case known && compound && ok && follows != v:
				inf.warnf("dimension %q is %d, but %d follows from the other dimensions: the length given is used", graph.Short(p.text), v, follows)
			case known:
			case !compound:
				d.Value, d.Assumed = inf.take(p.text)
			case !ok || follows < 0:
				return inputError(p.t, fmt.Sprintf("axis %d is %q, which has no value >= 0 with the dimensions given: say --dim %q", p.axis, p.text, p.text+"=N"))
			default:
				d.Value, d.Assumed = follows, slices.ContainsFunc(e.names, inf.assumed)
			}
			inf.symbols[p.text] = d.Value
			inf.result.Dims = append(inf.result.Dims, d)
		}
	}
	for _, p := range b.places {
		v, ok := inf.symbols[p.text]
		if p.given != nil && (!ok || *p.given != v) {
			if ok {
				inf.warnf("dimension %q is %d, but its name %q is %d: the length by place is used", p.at, *p.given, graph.Short(p.text), v)
			} else {
				inf.warnf("dimension %q is %d, but other places of %q have other lengths", p.at, *p.given, graph.Short(p.text))
			}
			v = *p.given
			inf.result.Dims = append(inf.result.Dims, BoundDim{Name: p.at, Value: v, Place: p.at})
		}
		p.t.Type.Shape[p.axis] = graph.Dim(v)
		if b.open(p.text) || slices.Contains(inf.opt.AtMost, p.at) {
			p.t.Type.Shape[p.axis] = graph.AtMost(v).WithIdentity(b.identity(p, v))
		}
	}
	for text := range inf.symbols {
		if b.open(text) { // it stands for no number in other shapes
			delete(inf.symbols, text)
		}
	}
	return nil
}

// open reports whether the length of a symbol is known only at run time: it is one of
// Options.AtMost, or an expression of one.
func (b *binder) open(text string) bool {
	if len(b.inf.opt.AtMost) == 0 {
		return false
	}
	e, compound := b.expression(text)
	return slices.Contains(b.inf.opt.AtMost, text) || compound && slices.ContainsFunc(e.names, func(name string) bool { return slices.Contains(b.inf.opt.AtMost, name) })
}

// identity returns the identity of a symbol's length; a place with a length of its own has
// its own.
func (b *binder) identity(p place, v int64) int64 {
	key := p.text
	if own, named := b.inf.symbols[p.text]; !named || own != v || slices.Contains(b.inf.opt.AtMost, p.at) {
		key = p.at
	}
	id, known := b.identities[key]
	if !known && b.inf.identities < graph.MostIdentities {
		b.inf.identities++
		id = b.inf.identities
		b.inf.monomials.bounded(id, v)
		if slices.Contains(b.inf.opt.Positive, key) {
			if b.inf.monomials.positive == nil {
				b.inf.monomials.positive = map[int64]bool{}
			}
			b.inf.monomials.positive[id] = true
		}
		b.identities[key] = id
		if slices.Contains(b.inf.opt.AtMost, key) {
			if b.inf.result.lengths == nil {
				b.inf.result.lengths = map[int64]string{}
			}
			b.inf.result.lengths[id] = key
		}
	}
	return id
}

// take is the length of a dimension that is not given, and whether it is an
// assumption.
func (inf *inferrer) take(name string) (v int64, assumed bool) {
	inf.unbound = append(inf.unbound, name)
	if v, ok := inf.taken[name]; ok {
		return v, !inf.forced
	}
	return 1, true
}

// length is the length of a symbol that is given, by its name or by all places
// that have one.
func (b *binder) length(text string) (v int64, known bool, err error) {
	if v, known = b.inf.opt.Dims[text]; known {
		b.used[text] = true
		return v, true, nil
	}
	for _, p := range b.places {
		if p.text != text || p.given == nil {
			continue
		}
		if known && v != *p.given {
			return 0, false, nil
		}
		v, known = *p.given, true
	}
	return v, known, nil
}

// onlyByPlace reports whether each place of a symbol has its own length.
func (b *binder) onlyByPlace(text string) bool {
	return !slices.ContainsFunc(b.places, func(p place) bool { return p.text == text && p.given == nil })
}

func unboundError(name string) error {
	return graph.Errorf("dimension %q is unbound: say --dim %s", name, name+"=N")
}

// spare lists the dimensions that are given and that no input has, and no output
// of an unknown operator either, which bindOutput binds.
func (b *binder) spare() []string {
	g := b.inf.model.Graph
	for _, n := range g.Nodes {
		if Lookup(n.Domain, n.Op) != nil || b.inf.function(n) != nil {
			continue
		}
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			for _, p := range openAxes(g.Tensors[t]) {
				b.used[p.text], b.used[p.at] = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.inf.opt.Dims)), func(name string) bool { return b.used[name] })
}

// unused says why a dimension binds nothing.
func (b *binder) unused(name string) error {
	g := b.inf.model.Graph
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		for axis, n := range t.Declared.Type.Shape {
			if name == placeName(t, axis) {
				return graph.Errorf("dimension %q cannot be bound: its length is %s in the file", graph.Short(name), n)
			}
		}
	}
	for _, t := range g.Tensors {
		if slices.ContainsFunc(openAxes(t), func(p place) bool { return p.text == name || p.at == name }) && t.Maker >= 0 {
			return graph.Errorf("dimension %q cannot be bound: it is one of tensor %q, whose shape follows from the inputs%s", graph.Short(name), graph.Short(t.Name), b.have())
		}
	}
	return graph.Errorf("no dimension %q%s", graph.Short(name), b.have())
}

// have lists the dimensions of the model.
func (b *binder) have() string {
	var names []string
	for _, p := range b.places {
		if p.text == p.at {
			names = append(names, p.at)
		} else {
			names = append(names, fmt.Sprintf("%s (%s)", graph.Short(p.text), p.at))
		}
	}
	if len(names) == 0 {
		return ": every input of this model has a fixed shape"
	}
	const most = 12
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("… %d more", more))
	}
	return ": this model has " + strings.Join(names, ", ")
}

func (inf *inferrer) assumed(name string) bool {
	for _, d := range inf.result.Dims {
		if d.Name == name {
			return d.Assumed
		}
	}
	return false
}

// bindValues converts the values of inputs, whose shapes are known by now.
func (inf *inferrer) bindValues() error {
	g := inf.model.Graph
	inf.given = map[graph.TensorID]*Value{}
	inf.result.Given = map[string]graph.Literal{}
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		l, ok := inf.opt.Values[t.Name]
		if !ok {
			continue
		}
		shape := make([]int64, len(t.Type.Shape))
		for i, d := range t.Type.Shape {
			shape[i] = int64(d)
		}
		if n, ok := t.Type.Elements(); t.Type.Kind != graph.KindTensor || !ok || n > FoldLimit {
			return inputError(t, fmt.Sprintf("has a value, but is %v: expected a tensor of at most %d elements", t.Type, FoldLimit))
		}
		if l = l.Filled(shape); !slices.Equal(l.Shape, shape) {
			return valueError(t, l, t.Type)
		}
		d, err := l.Tensor(t.Name, t.Type.Elem)
		if err != nil {
			return inputError(t, "its value: "+err.Error())
		}
		inf.given[id], inf.result.Given[t.Name] = valueOf(d), graph.LiteralOf(d)
	}
	inf.result.Spare.Values = slices.DeleteFunc(slices.Sorted(maps.Keys(inf.opt.Values)), func(name string) bool {
		_, ok := inf.result.Given[name]
		return ok
	})
	if s := inf.result.Spare.Values; len(s) > 0 && !inf.opt.SpareDims {
		return inf.noInput(s[0])
	}
	return nil
}

// noInput says that a value is not that of an input.
func (inf *inferrer) noInput(name string) error {
	g := inf.model.Graph
	var have []string
	for _, t := range g.Tensors {
		switch {
		case t.Name == name && t.Data != nil:
			return graph.Errorf("no input %q: it is an initializer, whose value is in the file", graph.Short(name))
		case t.Input:
			have = append(have, graph.Short(t.Name))
		}
	}
	if len(have) == 0 {
		return graph.Errorf("no input %q: this model has none", graph.Short(name))
	}
	return graph.Errorf("no input %q: this model has %s", graph.Short(name), strings.Join(have[:min(len(have), 12)], ", "))
}

func valueError(t *graph.Tensor, l graph.Literal, want graph.Type) error {
	return inputError(t, fmt.Sprintf("its value has shape %v, expected %s", l.Shape, graph.ShapeString(want.Shape)))
}

func inputError(t *graph.Tensor, text string) error {
	e := graph.Errorf("%s", text)
	e.Tensor = t.Name
	return e
}

// bindOutput sets the open dimensions of an unknown operator's output as
// bindInputs does for inputs.
func (inf *inferrer) bindOutput(t *graph.Tensor) error {
	if t.Type.Kind != graph.KindTensor || !t.Type.Ranked || t.Declared == nil || !t.Declared.Type.Ranked {
		return nil
	}
	for _, p := range openAxes(t) {
		if p.axis >= len(t.Type.Shape) || t.Type.Shape[p.axis].Exact() {
			continue
		}
		name := p.text
		if _, byPlace := inf.opt.Dims[p.at]; byPlace {
			name = p.at
		}
		v, done := inf.symbols[name]
		if !done {
			var given, assumed bool
			if v, given = inf.opt.Dims[name]; !given {
				if inf.opt.StrictDims {
					return unboundError(name)
				}
				v, assumed = inf.take(name)
			}
			inf.symbols[name] = v
			inf.result.Dims = append(inf.result.Dims, BoundDim{Name: name, Value: v, Assumed: assumed, Place: p.at})
		}
		t.Type.Shape[p.axis] = graph.Dim(v)
	}
	return nil
}
