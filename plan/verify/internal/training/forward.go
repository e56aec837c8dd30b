package training

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// meet notes that a tensor of the step has to be one of the source. What is to be compared is a list,
// not a recursion: graphs may be deep.
func (p *prover) meet(t, of graph.TensorID) { p.open = append(p.open, [2]graph.TensorID{t, of}) }

// compare goes from what the loss reads to the inputs, and compares all nodes on the way.
func (p *prover) compare() (wrong string, _ error) {
	for len(p.open) > 0 && wrong == "" {
		pair := p.open[len(p.open)-1]
		p.open = p.open[:len(p.open)-1]
		p.Poll()
		wrong = p.tensor(pair[0], pair[1])
	}
	return wrong, nil
}

// tensor says how a tensor differs from one of the source, "" if it does not. What makes it is compared
// once.
func (p *prover) tensor(t, of graph.TensorID) string {
	t, folded := p.uncast(t)
	if folded {
		return ""
	}
	if t < 0 || of < 0 {
		if t < 0 && of < 0 {
			return ""
		}
		return fmt.Sprintf("expected %s, as in the source, found %s", label(p.of.Graph, of), label(p.g, t))
	}
	if p.g.Tensors[t].Maker < 0 {
		of = p.base(of)
	}
	switch {
	case p.pairs[t] == of:
		return ""
	case p.pairs[t] != none:
		return fmt.Sprintf("expected %s of the source, found %q, which is %s there", label(p.of.Graph, of), graph.Short(p.g.Tensors[t].Name), label(p.of.Graph, p.pairs[t]))
	}
	p.pairs[t] = of
	x, s := p.g.Tensors[t], p.of.Graph.Tensors[of]
	switch {
	case x.Maker >= 0 && s.Maker >= 0:
		return p.made(t, of)
	case x.Data != nil:
		return p.initializer(x, s)
	case x.Capture && s.Capture && p.outer != nil:
		p.captured = append(p.captured, [2]graph.TensorID{outside(p.g, t), outside(p.of.Graph, of)})
		return ""
	case x.Input && s.Input && s.Data == nil:
		if x.Name == s.Name && p.outer == nil { // inputs of bodies are paired before
			return ""
		}
	case x.Input && p.data(s) != nil:
		return p.variable(x, s)
	}
	return fmt.Sprintf("expected %s of the source, found %q", label(p.of.Graph, of), graph.Short(x.Name))
}

// uncast goes through the casts that the plan lists. folded: one of them was computed when the model
// was planned, which is claimed.
func (p *prover) uncast(t graph.TensorID) (_ graph.TensorID, folded bool) {
	for t >= 0 && p.casts != nil {
		x := p.g.Tensors[t]
		if !p.casts[x.Name] && !slices.ContainsFunc(p.names[t], func(name string) bool { return p.casts[name] }) {
			break
		}
		if p.step.Made.Constants[x.Name] {
			return t, true
		}
		if x.Maker < 0 || !ops.Casts(p.g.Nodes[x.Maker]) {
			break
		}
		t = p.g.Nodes[x.Maker].Inputs[0]
	}
	return t, false
}

// base is the tensor of the source that a tensor repeats: exporters put Identity nodes between one
// initializer and its readers, and steps give each its own.
func (p *prover) base(of graph.TensorID) graph.TensorID {
	for {
		m := p.of.Graph.Tensors[of].Maker
		if m < 0 {
			return of
		}
		n := p.of.Graph.Nodes[m]
		if !repeats(n) {
			return of
		}
		root := p.root(n.Inputs[0])
		if p.of.Graph.Tensors[root].Data == nil {
			return of
		}
		of = root
	}
}

// repeats reports whether a node is an Identity.
func repeats(n *graph.Node) bool {
	return n.Op == "Identity" && n.Domain == "" && len(n.Inputs) == 1 && n.Inputs[0] >= 0
}

// root goes through Identity nodes.
func (p *prover) root(of graph.TensorID) graph.TensorID {
	g := p.of.Graph
	for g.Tensors[of].Maker >= 0 {
		n := g.Nodes[g.Tensors[of].Maker]
		if !repeats(n) {
			break
		}
		of = n.Inputs[0]
	}
	return of
}

// data returns the elements of an initializer of the source, or of a Constant node; nil if it is neither.
func (p *prover) data(s *graph.Tensor) *graph.Data {
	if s.Data != nil || s.Maker < 0 {
		return s.Data
	}
	if n := p.of.Graph.Nodes[s.Maker]; ops.IsConstant(n) && len(n.Attrs) == 1 && n.Attrs[0].Name == "value" {
		return n.Attrs[0].Tensor
	}
	return nil
}

// initializer says how an initializer differs from a tensor of the source.
func (p *prover) initializer(x, s *graph.Tensor) string {
	old := p.data(s)
	switch {
	case old != nil && p.sameData(x.Data, old):
		return ""
	case p.step.Made.Constants[x.Name]: // claimed, as folded is
		return ""
	case old == nil && p.Plan.Slices != nil: // slices compute what depends on constants alone
		p.claimed["nodes in slices"] = true
		return ""
	case old == nil:
		return fmt.Sprintf("initializer %q: expected a node that makes %q, as in the source", graph.Short(x.Name), graph.Short(s.Name))
	}
	return fmt.Sprintf("initializer %q: expected the elements of %q of the source", graph.Short(x.Name), graph.Short(s.Name))
}

// variable says why an input of the step does not stand for an initializer of the source: a parameter,
// or a statistic, begins with its elements, and has its name.
func (p *prover) variable(x, s *graph.Tensor) string {
	old := p.data(s)
	name := x.Name
	if of, is := p.copies[name]; is {
		name = of
	}
	named := p.sources[name]
	switch {
	case p.step.Updates[x.Name] == "":
		return fmt.Sprintf("input %q: expected the initializer %q of the source, or one that is updated", graph.Short(x.Name), graph.Short(s.Name))
	case p.sourceOf(name) == nil || p.of.Graph.Tensors[p.base(named)] != s:
		return fmt.Sprintf("input %q: expected %q of the source", graph.Short(x.Name), graph.Short(s.Name))
	case x.Type.Elem != old.Type || !slices.EqualFunc(x.Type.Shape, old.Dims, func(a graph.Dim, b int64) bool { return int64(a) == b }):
		return fmt.Sprintf("input %q: expected type %v%v, as in the source, found %v", graph.Short(x.Name), old.Type, old.Dims, x.Type)
	}
	return ""
}

func (p *prover) sourceOf(name string) *graph.Tensor {
	if id, known := p.sources[name]; known {
		return p.of.Graph.Tensors[id]
	}
	return nil
}

// made compares the nodes that make two tensors.
func (p *prover) made(t, of graph.TensorID) string {
	x, s := p.g.Tensors[t], p.of.Graph.Tensors[of]
	n, old := p.g.Nodes[x.Maker], p.of.Graph.Nodes[s.Maker]
	if repeats(n) && p.step.Made.Constants[x.Name] && p.g.Tensors[n.Inputs[0]].Data != nil { // claimed, as folded is
		return ""
	}
	if p.isSliced(n) {
		return p.sliced(t)
	}
	if a := p.adapterOf(t); a != nil {
		return p.adapted(a, t, of)
	}
	if l, is := p.linear(x.Maker, old); is {
		return p.joined(l, x.Maker, s.Maker)
	}
	if isAttention(n, old) {
		return p.attended(t, of)
	}
	if p.isSpelled(n, old) {
		return p.spell(t, of)
	}
	want := p.upgraded(n, old)
	if p.step.Made.Products[x.Name] || n.Op != want.op || n.Domain != old.Domain || n.Overload != old.Overload {
		return p.replaced(t, of)
	}
	name, captured := p.attribute(n, want.attrs)
	if name != "" && len(n.Bodies()) > 0 {
		var wrong string
		var alike bool
		if captured, wrong, alike = p.bodies(n, want.attrs); wrong != "" {
			return wrong
		} else if !alike { // a Loop is a Scan now, or a Scan returns its states, too
			return p.replaced(t, of)
		}
		name = ""
	}
	at := p.g.Label(x.Maker)
	switch {
	case x.Out != s.Out:
		return fmt.Sprintf("%s: expected output %d to be %s, as in the source", at, s.Out, label(p.of.Graph, of))
	case p.nodes[x.Maker] == s.Maker:
		return ""
	case p.nodes[x.Maker] != none:
		return fmt.Sprintf("%s: expected each node of the source once", at)
	}
	p.nodes[x.Maker] = s.Maker
	p.compared++
	p.open = append(p.open, captured...)
	in := trimmed(n.Inputs)
	if len(in) != len(want.in) {
		return fmt.Sprintf("%s: expected %s, as in the source, found %d", at, subject.Count(len(want.in), "input"), len(in))
	}
	for k, w := range want.in {
		if w.literal == nil {
			if w.spread {
				p.claimed["scales of groups"] = true
				in[k] = p.unspread(in[k])
			}
			p.meet(in[k], w.of)
			continue
		}
		if in[k] < 0 || !p.holds(in[k], w.literal) {
			return fmt.Sprintf("%s: input %d: expected %v, as in the source, found %s", at, k, w.literal, label(p.g, in[k]))
		}
	}
	if wrong := p.statistics(n, old); wrong != "" {
		return at + ": " + wrong
	}
	if name != "" {
		return fmt.Sprintf("%s: attribute %q: expected that of the source", at, graph.Short(name))
	}
	return ""
}

// unspread goes from what is repeated along an axis back to the elements.
func (p *prover) unspread(t graph.TensorID) graph.TensorID {
	for range 3 { // Reshape, Expand, Reshape
		if x := p.g.Tensors[t]; x.Maker >= 0 {
			if n := p.g.Nodes[x.Maker]; len(n.Inputs) == 2 && n.Inputs[0] >= 0 && n.Domain == "" {
				t = n.Inputs[0]
			}
		}
	}
	return t
}

// isSliced reports whether a node is part of a region that runs in slices.
func (p *prover) isSliced(n *graph.Node) bool {
	_, is := n.Prop("onnxmem.slice")
	return is && p.Plan.Slices != nil
}

// trimmed leaves out missing inputs at the end.
func trimmed(in []graph.TensorID) []graph.TensorID {
	for len(in) > 0 && in[len(in)-1] < 0 {
		in = in[:len(in)-1]
	}
	return in
}

// attribute names an attribute that is not one of a list, or is missing; "": none is. captured are what
// bodies capture, which then has to be the same.
func (p *prover) attribute(n *graph.Node, want []*graph.Attr) (name string, captured [][2]graph.TensorID) {
	equal := p.same
	equal.Outer = func(a, b graph.TensorID) bool {
		captured = append(captured, [2]graph.TensorID{a, b})
		return true
	}
	for _, b := range want {
		if a := n.Attr(b.Name); a == nil || !equal.Attribute(a, b) {
			return b.Name, nil
		}
	}
	for _, a := range n.Attrs {
		if !slices.ContainsFunc(want, func(b *graph.Attr) bool { return b.Name == a.Name }) {
			return a.Name, nil
		}
	}
	return "", captured
}

// statistics says what is wrong with the running statistics of a BatchNormalization in training mode:
// its further outputs are their next values.
func (p *prover) statistics(n, old *graph.Node) string {
	if n.Op != "BatchNormalization" || n.Domain != "" {
		return ""
	}
	mode := n.Attr("training_mode")
	if mode == nil || mode.Int == 0 {
		return ""
	}
	if len(n.Inputs) < 5 || len(n.Outputs) != 3 {
		return fmt.Sprintf("expected running statistics and their next values, found %d inputs and %d outputs", len(n.Inputs), len(n.Outputs))
	}
	for k := 3; k < 5; k++ {
		from := p.g.Tensors[n.Inputs[k]].Name
		if to := p.step.Updates[from]; to == "" || n.Outputs[k-2] < 0 || p.g.Tensors[n.Outputs[k-2]].Name != to {
			return fmt.Sprintf("output %d: expected the next value of %q", k-2, graph.Short(from))
		}
		p.known[from] = true
	}
	return ""
}

func label(g *graph.Graph, t graph.TensorID) string {
	if t < 0 {
		return "none"
	}
	return fmt.Sprintf("%q", graph.Short(g.Tensors[t].Name))
}
