package training

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// spelled compares a node Attention with the nodes of the source that spell it out: the product with
// the values, the Softmax, and what makes its scores. Which elements the three operands hold is compared
// by layouts, masks by the nodes that make them.
type spelled struct {
	p       *prover
	at      string
	new     layouts        // of the file
	old     layouts        // of the source
	call    *graph.Node    // Attention
	last    *graph.Node    // of the source: the product with the values
	softmax *graph.Node    // of the source
	scores  product        // of the source: that of queries and keys
	made    graph.TensorID // what it makes
	values  product        // of the source: that with the values
	scale   float64        // of the source's scores
	factors []factor       // of the scores of the source, from the product outwards
	changes []change       // of the source's scores, from the product outwards
	lead    [2]int64       // batch and heads of the file
	elem    graph.DType    // in which the source's Softmax computes
}

// change is a node that adds to scores, or replaces them.
type change struct {
	adds    bool           // else it replaces
	other   graph.TensorID // what is added, or the condition
	negated bool           // the condition says which scores are replaced
	fill    float64
	shape   []int64 // of the scores
}

// withTypes infers the source for the plan's dims: layouts need its shapes.
func (p *prover) withTypes() (string, error) {
	p.spelledOut = map[string]bool{}
	if p.Plan.Attention == nil {
		return "", nil
	}
	return "", p.inferSource()
}

// inferSource infers the source once.
func (p *prover) inferSource() error {
	if p.values != nil {
		return nil
	}
	dims := map[string]int64{}
	for name, d := range p.Plan.Dims {
		dims[name] = d.Value
	}
	found, err := ops.Infer(p.of, ops.Options{Dims: dims, Values: p.Plan.Values, SpareDims: true})
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	p.values = found.Values
	return nil
}

// attentions checks that the plan lists each attention that was compared.
func (p *prover) attentions() (string, error) {
	for _, name := range p.Plan.Attention {
		if !p.spelledOut[name] && p.Plan.Slices == nil && p.needed(name) {
			return fmt.Sprintf("attention: %q: expected a node Attention that stands for several of the source", graph.Short(name)), nil
		}
		delete(p.spelledOut, name)
	}
	for _, name := range sorted(p.spelledOut) {
		return fmt.Sprintf("attention: expected %q among the attentions that one node computes", graph.Short(name)), nil
	}
	return "", nil
}

// needed reports whether the comparison has met a tensor: what no output needs is not compared.
func (p *prover) needed(name string) bool {
	t, there := p.byName[name]
	return !there || p.pairs[t] != none
}

// isSpelled reports whether a node is an Attention, or the Reshape behind one, that stands for a product
// of the source.
func (p *prover) isSpelled(n, old *graph.Node) bool {
	if !p.inference || p.Plan.Attention == nil || p.outer != nil || p.attentionOf(n) == nil {
		return false
	}
	_, is := productOf(old)
	return is
}

// attentionOf is a node itself, if it is an Attention, or that whose first result it reshapes or transposes.
func (p *prover) attentionOf(n *graph.Node) *graph.Node {
	for range 3 {
		if n.Domain != "" {
			break
		}
		switch n.Op {
		case "Attention":
			return n
		case "Reshape", "Transpose":
			if t, _ := p.uncast(n.Inputs[0]); t >= 0 && p.g.Tensors[t].Maker >= 0 && p.g.Tensors[t].Out == 0 {
				n = p.g.Nodes[p.g.Tensors[t].Maker]
			}
		}
	}
	return nil
}

// spell compares such a node with the source.
func (p *prover) spell(t, of graph.TensorID) string {
	maker := p.g.Tensors[t].Maker
	s := &spelled{
		p: p, at: p.g.Label(maker), call: p.attentionOf(p.g.Nodes[maker]), last: p.of.Graph.Nodes[p.of.Graph.Tensors[of].Maker], scale: 1,
		new: layouts{g: p.g, skip: func(t graph.TensorID) graph.TensorID { t, _ = p.uncast(t); return t }, number: p.newNumber},
		old: layouts{g: p.of.Graph, skip: func(t graph.TensorID) graph.TensorID { return t }, number: p.oldNumber},
	}
	s.values, _ = productOf(s.last)
	for _, check := range []func() string{s.weights, func() string { return s.shaped(t, of) }, s.walk, s.attributes, s.operands, s.masks} {
		if wrong := check(); wrong != "" {
			return s.at + ": " + wrong
		}
	}
	p.nodes[maker] = p.of.Graph.Tensors[of].Maker
	p.compared++
	p.spelledOut[p.of.Graph.Tensors[of].Name] = true
	return ""
}

// shaped compares the lengths of the result with those of the source: layouts compare elements in a row.
func (s *spelled) shaped(t, of graph.TensorID) string {
	if !s.new.exact(t) || !s.old.exact(of) || !slices.Equal(s.new.shape(t), s.old.shape(of)) {
		return fmt.Sprintf("expected the lengths of the source's result, %v, found %v", s.old.g.Tensors[of].Type, s.new.g.Tensors[t].Type)
	}
	if !s.ordered(t, s.values.axes) {
		return fmt.Sprintf("expected the axes of attention in the order of the source's result, found another order in %s", label(s.p.g, t))
	}
	return ""
}

// oldNumber is the one element of a tensor of the source.
func (p *prover) oldNumber(t graph.TensorID) (float64, bool) {
	for range 4 {
		if t < 0 {
			break
		}
		if int(t) < len(p.values) {
			if v, ok := p.values[t].Floats(); ok && len(v) == 1 && p.of.Graph.Tensors[t].Type.Elem.Floating() {
				return v[0], true
			}
			if v, ok := p.values[t].Ints(); ok && len(v) == 1 {
				return float64(v[0]), true
			}
		}
		m := p.of.Graph.Tensors[t].Maker
		if m < 0 || !ops.Casts(p.of.Graph.Nodes[m]) {
			break
		}
		t = p.of.Graph.Nodes[m].Inputs[0]
	}
	return 0, false
}

// newNumber is the one element of a tensor of the file: of one of the source, or of an initializer that the
// plan added.
func (p *prover) newNumber(t graph.TensorID) (float64, bool) {
	if t, _ = p.uncast(t); t < 0 {
		return 0, false
	}
	x := p.g.Tensors[t]
	if of, is := p.counterpart(t); is {
		v, known := p.oldNumber(of)
		if known {
			p.meet(t, of)
		}
		return v, known
	}
	if x.Data == nil || x.Data.Elements() != 1 {
		return 0, false
	}
	read, err := p.files[0].Read(x.Data)
	if err != nil {
		return 0, false
	}
	switch raw := read.Raw; x.Data.Type {
	case graph.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case graph.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	case graph.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw)) << 16)), true
	case graph.Float16:
		switch binary.LittleEndian.Uint16(raw) { // others do not occur in masks
		case 0:
			return 0, true
		case 0xfc00:
			return math.Inf(-1), true
		}
	}
	return 0, false
}

func (s *spelled) label(t graph.TensorID) string { return label(s.p.of.Graph, t) }

// weights goes from the product with the values back to the Softmax.
func (s *spelled) weights() string {
	g := s.old.g
	t := s.values.left.t
	if s.values.left.axes != nil {
		return fmt.Sprintf("expected a product that reads weights as they lie in the source, found another that makes %s", s.label(s.last.Outputs[0]))
	}
	for range 16 {
		n := s.old.maker(t)
		if n == nil || !s.old.exact(t) {
			break
		}
		switch n.Op {
		case "Softmax":
			if axis := n.Attr("axis"); axis == nil && s.p.version < 13 || axis != nil && axis.Int != -1 && axis.Int != int64(len(s.old.shape(t)))-1 {
				return fmt.Sprintf("expected a Softmax along the last axis in the source, found another that makes %s", s.label(t))
			}
			s.softmax = n // walk goes on from here
			return ""
		case "Where": // what is no number becomes 0, as Attention has it
			isNaN := s.old.maker(n.Inputs[0])
			if zero, known := s.old.number(n.Inputs[1]); isNaN == nil || isNaN.Op != "IsNaN" || isNaN.Inputs[0] != n.Inputs[2] || !known || zero != 0 {
				return s.unexpected(n)
			}
			t = n.Inputs[2]
		default:
			if !s.hands(n) {
				return s.unexpected(n)
			}
			t = n.Inputs[0]
		}
	}
	return fmt.Sprintf("expected the weights of attention in the source, found %s", label(g, t))
}

// hands reports whether a node of the source only hands scores or weights on.
func (s *spelled) hands(n *graph.Node) bool {
	if len(n.Inputs) == 0 || !s.old.exact(n.Inputs[0]) || !s.old.exact(n.Outputs[0]) {
		return false
	}
	switch n.Op {
	case "Cast":
		return s.old.g.Tensors[n.Inputs[0]].Type.Elem.Floating() && s.old.g.Tensors[n.Outputs[0]].Type.Elem.Floating()
	case "Identity":
		return true
	case "Dropout":
		if len(n.Inputs) < 3 || n.Inputs[2] < 0 {
			return true
		}
		v, known := s.old.number(n.Inputs[2])
		return known && v == 0
	case "Reshape":
		from, to := s.old.shape(n.Inputs[0]), s.old.shape(n.Outputs[0])
		return len(from) >= 3 && len(to) >= 3 && slices.Equal(from[len(from)-2:], to[len(to)-2:])
	}
	return false
}

func (s *spelled) unexpected(n *graph.Node) string {
	return fmt.Sprintf("expected nodes of attention in the source, found %s that makes %s", n.Op, s.label(n.Outputs[0]))
}

// walk goes from the Softmax back to the product of queries and keys.
func (s *spelled) walk() string {
	t := s.softmax.Inputs[0]
	s.elem = s.old.g.Tensors[t].Type.Elem
	for range 32 {
		n := s.old.maker(t)
		if n == nil || !s.old.exact(t) || len(s.old.shape(t)) < 3 {
			break
		}
		shape := s.old.shape(t)
		switch n.Op {
		case "MatMul", "Einsum":
			var ok bool
			if s.scores, ok = productOf(n); !ok || s.scores.axes != nil {
				return s.unexpected(n)
			}
			s.made = t
			slices.Reverse(s.changes)
			slices.Reverse(s.factors)
			return ""
		case "Mul", "Div":
			if from, by, ok := s.old.scaled(n); ok {
				t, s.scale = from, s.scale*by
				break
			}
			from, x, ok := s.old.factor(n)
			if !ok {
				return s.unexpected(n)
			}
			t, s.factors = from, append(s.factors, x)
		case "Add", "Where":
			if s.scale != 1 || len(s.factors) > 0 {
				return fmt.Sprintf("expected no scale behind what %s changes in the source", s.label(t))
			}
			from, c, ok := s.changed(n, shape)
			if !ok {
				return s.unexpected(n)
			}
			t, s.changes = from, append(s.changes, c)
		default:
			if !s.hands(n) {
				return s.unexpected(n)
			}
			t = n.Inputs[0]
		}
	}
	return fmt.Sprintf("expected scores of attention in the source, found %s", s.label(t))
}

// changed returns the scores that an Add or a Where of the source changes, and how.
func (s *spelled) changed(n *graph.Node, shape []int64) (from graph.TensorID, c change, ok bool) {
	whole := func(t graph.TensorID) bool { return s.old.exact(t) && slices.Equal(s.old.shape(t), shape) }
	c = change{shape: shape}
	switch n.Op {
	case "Add":
		c.adds = true
		for k, t := range n.Inputs {
			if whole(t) && s.leads(t) {
				c.other = n.Inputs[1-k]
				return t, c, s.old.exact(c.other)
			}
		}
		return none, c, false
	}
	c.other = n.Inputs[0]
	for k := 2; k > 0; k-- {
		if v, known := s.old.number(n.Inputs[k]); known && whole(n.Inputs[3-k]) && v <= hidden {
			c.fill, c.negated = v, k == 1
			return n.Inputs[3-k], c, s.old.exact(c.other)
		}
	}
	return none, c, false
}

// hidden is the largest number that hides a key, whatever its score; beside other masks, least.
const (
	hidden = -1e4
	least  = -3.38e38
)

// leads reports whether nodes that a walk goes through lead from a tensor of the source to a product.
func (s *spelled) leads(t graph.TensorID) bool {
	open := []graph.TensorID{t}
	for visits := 0; len(open) > 0 && visits < mostVisits; visits++ {
		t, open = open[len(open)-1], open[:len(open)-1]
		n := s.old.maker(t)
		if n == nil {
			continue
		}
		switch n.Op {
		case "MatMul", "Einsum":
			return true
		case "Mul", "Div", "Add":
			open = append(open, n.Inputs...)
		case "Where":
			open = append(open, n.Inputs[1:]...)
		default:
			if s.hands(n) {
				open = append(open, n.Inputs[0])
			}
		}
	}
	return false
}

// attributes compares those of the node.
func (s *spelled) attributes() string {
	half := s.old.g.Tensors[s.made].Type.Elem != graph.Float32
	for _, a := range s.call.Attrs {
		switch {
		case a.Name == "scale": // operands compares it
		case a.Name == "softmax_precision" && a.Int == int64(graph.Float32) && s.elem == graph.Float32 && half:
		default:
			return fmt.Sprintf("attribute %q: expected none", graph.Short(a.Name))
		}
	}
	switch {
	case s.call.Attr("scale") == nil:
		return "attribute scale: expected that of the source, found none"
	case len(trimmed(s.call.Inputs)) > 4 || len(s.call.Inputs) < 3 || len(trimmed(s.call.Outputs)) != 1:
		return "expected queries, keys, values and a mask, and one result"
	}
	for _, t := range s.call.Inputs[:3] {
		if t < 0 || !s.new.exact(t) || len(s.new.shape(t)) != 4 {
			return "expected queries, keys and values of four axes"
		}
	}
	q := s.new.shape(s.call.Inputs[0])
	s.lead = [2]int64{q[0], q[1]}
	return ""
}

// operands compares queries, keys and values, and the scale.
func (s *spelled) operands() string {
	scale := float64(s.call.Attr("scale").Float)
	want := s.scale
	var factors [2][]factor // of the file, of the source
	for i, read := range []reading{s.scores.left, s.scores.right, s.values.right} {
		t, of := s.call.Inputs[i], read.t
		if !s.old.exact(of) || len(s.old.shape(of)) < 3 {
			return fmt.Sprintf("input %d: expected %s, of three axes or more in the source", i, s.label(of))
		}
		a, b := s.new.of(t), s.old.of(of)
		b.axes = arranged(b.axes, read.axes)
		s.repeat(&a, t)
		if n := arranged(s.old.shape(of), read.axes); len(n) == 4 && n[1] == 1 && n[0] == s.lead[0] { // the product repeats it
			b.axes[1] = merged([]atom{{s.lead[1], 0}})
		}
		x, y := a.heads(), b.heads()
		if i == 1 {
			y[1], y[2] = y[2], y[1]
		}
		if !reflect.DeepEqual(x, y) {
			return fmt.Sprintf("input %d: expected the elements of %s of the source in their places", i, s.label(of))
		}
		if made := s.p.g.Tensors[a.root]; s.p.step.Made.Constants[made.Name] {
			s.p.claimed["folded operands of attention"] = true
		} else {
			s.p.meet(a.root, b.root)
		}
		if i == 2 {
			if a.scale != b.scale || len(a.factors)+len(b.factors) > 0 {
				return fmt.Sprintf("input 2: expected %s, as in the source", s.label(of))
			}
			continue
		}
		scale, want = scale*a.scale, want*b.scale
		if i == 1 {
			factors[1] = append(factors[1], s.factors...)
		}
		factors[0], factors[1] = append(factors[0], a.factors...), append(factors[1], b.factors...)
	}
	if len(factors[0]) != len(factors[1]) {
		return fmt.Sprintf("expected scores that are multiplied by %s, as in the source, found %d", subject.Count(len(factors[1]), "tensor"), len(factors[0]))
	}
	for i, x := range factors[0] {
		if y := factors[1][i]; x.op != y.op || !s.same(x.by, y.by) {
			return fmt.Sprintf("expected a %s by %s, as in the source, found a %s", y.op, s.label(y.by), x.op)
		}
	}
	if !agree(scale, want) {
		return fmt.Sprintf("attribute scale: expected the source's, which makes %g of scores, found %g", want, scale)
	}
	return ""
}

// repeat repeats the heads of keys or values that several heads of queries share.
func (s *spelled) repeat(a *layout, t graph.TensorID) {
	if n := s.new.shape(t)[1]; n > 0 && s.lead[1]%n == 0 {
		a.axes[1] = merged(append(slices.Clone(a.axes[1]), atom{s.lead[1] / n, 0}))
	}
}

// masks compares what changes scores.
func (s *spelled) masks() string {
	m := graph.TensorID(none)
	if in := trimmed(s.call.Inputs); len(in) > 3 {
		m = in[3]
	}
	if len(s.changes) == 0 {
		if m != none {
			return fmt.Sprintf("input 3: expected none, as in the source, found %s", label(s.p.g, m))
		}
		return ""
	}
	keys := s.changes[0].shape[len(s.changes[0].shape)-1]
	for _, c := range s.changes {
		if len(s.changes) > 1 && !c.adds && c.fill > least {
			return fmt.Sprintf("input 3: expected one mask, since %s of the source leaves scores beside others", s.label(c.other))
		}
		have, n := s.old.shape(c.other), len(c.shape)
		switch {
		case len(have) < 2 || len(have) > n || n > 4 || have[len(have)-1] != keys:
		case n == 4 && [2]int64(c.shape[:2]) == s.lead, len(have) == 2:
			continue
		case n == 3 && len(have) == 3 && (have[0] == 1 || s.lead == [2]int64{1, c.shape[0]}):
			continue
		}
		return fmt.Sprintf("input 3: expected a mask of the axes of scores, which %s of the source has not", s.label(c.other))
	}
	if !s.matches(m, s.changes) {
		return fmt.Sprintf("input 3: expected what changes scores in the source, found %s", label(s.p.g, m))
	}
	return ""
}

// matches reports whether a tensor, added to scores or, of bools, saying which stay, changes these as
// changes do.
func (s *spelled) matches(m graph.TensorID, changes []change) bool {
	if m = s.new.skip(m); m < 0 {
		return false
	}
	c, before := changes[len(changes)-1], changes[:len(changes)-1]
	if s.p.g.Tensors[m].Type.Elem == graph.Bool {
		return len(before) == 0 && s.shows(m, c)
	}
	n := s.new.maker(m)
	if c.adds {
		if len(before) == 0 {
			s.p.meet(m, c.other)
			return true
		}
		if n == nil || n.Op != "Add" || !s.matches(n.Inputs[0], before) {
			return false
		}
		return s.same(n.Inputs[1], c.other)
	}
	if n == nil || n.Op != "Where" {
		return false
	}
	shown, low := n.Inputs[1], n.Inputs[2]
	if c.negated {
		shown, low = low, shown
	}
	if v, known := s.new.number(low); !known || !s.hides(v, c.fill, m) {
		return false
	}
	s.p.meet(n.Inputs[0], c.other)
	if len(before) > 0 {
		return s.matches(shown, before)
	}
	zero, known := s.new.number(shown)
	return known && zero == 0
}

// same notes that a tensor, or what a Cast between floating-point types makes of it, has to be one of the
// source.
func (s *spelled) same(t, of graph.TensorID) bool {
	if n := s.new.maker(t); n != nil && ops.Casts(n) {
		if _, known := s.p.counterpart(t); !known {
			t = n.Inputs[0]
		}
	}
	s.p.meet(t, of)
	return true
}

// hides reports whether a number that is added to scores hides keys as the one by which the source replaces
// these: either is -Inf, or the least of the type, beside which scores do not count.
func (s *spelled) hides(v, fill float64, m graph.TensorID) bool {
	if math.IsInf(fill, -1) {
		return math.IsInf(v, -1)
	}
	switch s.p.g.Tensors[m].Type.Elem {
	case graph.Float32:
		return v == -math.MaxFloat32
	case graph.BFloat16:
		return v == -3.3895313892515355e38
	}
	return false
}

// shows reports whether bools say which keys are seen, as a change of the source does.
func (s *spelled) shows(m graph.TensorID, c change) bool {
	keep, negated := c.other, c.negated
	if c.adds {
		n := s.old.maker(c.other)
		if n == nil || n.Op != "Where" || !slices.Equal(s.old.shape(n.Inputs[0]), s.old.shape(c.other)) {
			return false
		}
		x, known := s.old.number(n.Inputs[1])
		y, both := s.old.number(n.Inputs[2])
		switch {
		case !known || !both:
			return false
		case x == 0 && math.IsInf(y, -1):
			negated = false
		case y == 0 && math.IsInf(x, -1):
			negated = true
		default:
			return false
		}
		keep = n.Inputs[0]
	} else if !math.IsInf(c.fill, -1) {
		return false
	}
	if negated {
		n := s.new.maker(m)
		if n == nil || n.Op != "Not" {
			return false
		}
		m = n.Inputs[0]
	}
	s.p.meet(m, keep)
	return true
}
