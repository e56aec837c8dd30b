package training

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
)

// term is one of the losses whose weighted sum a step minimises.
type term struct {
	kind, output string // output "": not named
	factor       float64
}

// The kinds of losses.
const (
	kindCrossEntropy = "cross-entropy"
	kindSquares      = "mse"
	kindMagnitudes   = "l1"
	kindBinary       = "bce"
	kindOwn          = "none"
)

// oneTerm matches a loss as --loss has it: 0.5*mse:OUTPUT.
var oneTerm = regexp.MustCompile(`^\s*(?:([\d.]+(?:[eE]-?\d+)?)\s*\*\s*)?(cross-entropy|mse|bce|l1|none)\s*(?::(.*))?$`)

// readLoss reads the losses of a step. A name of an output may have a plus sign, so a text is cut at
// each behind which a loss begins.
func readLoss(text string) (list []term, ok bool) {
	begins := regexp.MustCompile(`\+\s*(?:[\d.]+(?:[eE]-?\d+)?\s*\*\s*)?(?:cross-entropy|mse|bce|l1|none)\s*(?:$|:|\+)`)
	var parts []string
	start := 0
	for i := range text {
		if at := begins.FindStringIndex(text[i:]); i > start && at != nil && at[0] == 0 {
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	parts = append(parts, text[start:])
	for _, part := range parts {
		m := oneTerm.FindStringSubmatch(part)
		if m == nil {
			return nil, false
		}
		t := term{kind: m[2], output: m[3], factor: 1}
		if len(parts) > 1 {
			t.output = strings.TrimSpace(t.output)
		}
		if m[1] != "" {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return nil, false
			}
			t.factor = v
		}
		list = append(list, t)
	}
	return list, true
}

// loss compares what makes the output loss with the losses that the metadata name. What these are
// computed from is left to compare.
func (p *prover) loss() (string, error) {
	text, _ := p.Model.Prop("onnxmem.loss")
	terms, ok := readLoss(text)
	t, there := p.byName["loss"]
	switch {
	case !ok:
		return fmt.Sprintf("onnxmem.loss: expected losses, found %q", graph.Short(text)), nil
	case !there || !p.g.Tensors[t].Output:
		return `expected an output "loss"`, nil
	case p.g.Tensors[t].Type.Elem != graph.Float32 || len(p.g.Tensors[t].Type.Shape) > 0:
		return fmt.Sprintf("output \"loss\": expected a float32 scalar, found %v", p.g.Tensors[t].Type), nil
	}
	p.forward = p.ancestors([]graph.TensorID{t})
	p.running()
	if p.Plan.Slices != nil && slices.ContainsFunc(p.g.Nodes, func(n *graph.Node) bool { return p.isSliced(n) && p.ofLoss(n) }) {
		p.claimed["loss"] = true
		return p.sliced(t), nil
	}
	if wrong := p.terms(t, terms); wrong != "" {
		return fmt.Sprintf("output \"loss\": expected %s of an output of the source: %s", graph.Short(text), wrong), nil
	}
	return "", nil
}

// ofLoss reports whether a node makes nothing that has a name of the source.
func (p *prover) ofLoss(n *graph.Node) bool {
	phase, _ := n.Prop("onnxmem.of")
	return phase == "loss"
}

// running compares the nodes that update running statistics, whether the loss needs them or not.
func (p *prover) running() {
	for _, from := range sorted(p.step.Updates) {
		t, there := p.byName[p.step.Updates[from]]
		if !there || p.step.Trained[from] || p.sourceOf(p.original(from)) == nil || p.g.Tensors[t].Maker < 0 {
			continue
		}
		if y := p.g.Nodes[p.g.Tensors[t].Maker].Outputs[0]; y >= 0 {
			if of, known := p.counterpart(y); known {
				p.meet(y, of)
			}
		}
	}
}

// terms takes a sum apart, from its last term on.
func (p *prover) terms(t graph.TensorID, list []term) string {
	for k := len(list) - 1; k >= 0; k-- {
		l, at := list[k], t
		if k > 0 {
			sum := p.node(t, "Add", 2)
			if sum == nil {
				return fmt.Sprintf("expected a sum, found %s", p.maker(t))
			}
			t, at = sum.Inputs[0], sum.Inputs[1]
		}
		if l.factor != 1 {
			product := p.node(at, "Mul", 2)
			if product == nil || !p.number(product.Inputs[1], l.factor) {
				return fmt.Sprintf("expected %v times a loss, found %s", l.factor, p.maker(at))
			}
			at = product.Inputs[0]
		}
		labels := "labels"
		if len(list) > 1 {
			labels += "." + l.output
		}
		wrong := "it has none"
		for _, y := range p.outputs(l) {
			if len(list) > 1 && l.output == "" {
				labels = "labels." + p.of.Graph.Tensors[y].Name
			}
			m := lossMatch{p: p, y: y, labels: labels}
			if wrong = m.match(at, l.kind); wrong == "" {
				for _, pair := range m.found {
					p.meet(pair[0], pair[1])
				}
				break
			}
		}
		if wrong != "" {
			return wrong
		}
	}
	return ""
}

// outputs are those from which a loss may be computed: the one that it names, or any, as
// --loss-output says it nowhere in the file.
func (p *prover) outputs(l term) (list []graph.TensorID) {
	for _, y := range p.of.Graph.Outputs {
		if l.output == "" || p.of.Graph.Tensors[y].Name == l.output {
			list = append(list, y)
		}
	}
	return list
}

// lossMatch compares one loss with the nodes of a step.
type lossMatch struct {
	p      *prover
	y      graph.TensorID // of the source
	labels string
	found  [][2]graph.TensorID
}

// match says why a tensor is not a loss of a kind of y, "" if it is.
func (m *lossMatch) match(t graph.TensorID, kind string) string {
	t = m.p.through(t)
	switch kind {
	case kindOwn:
		if n := m.p.node(t, "Reshape", 2); n != nil && len(m.p.g.Tensors[t].Type.Shape) == 0 && m.is(m.p.through(n.Inputs[0]), m.y) || m.is(t, m.y) {
			return ""
		}
	case kindSquares:
		if n := m.p.node(m.p.mean(t), "Mul", 2); n != nil && n.Inputs[0] == n.Inputs[1] && m.difference(n.Inputs[0]) {
			return ""
		}
	case kindMagnitudes:
		if n := m.p.node(m.p.mean(t), "Abs", 1); n != nil && m.difference(n.Inputs[0]) {
			return ""
		}
	case kindBinary:
		if m.logits(t) || m.probabilities(t) {
			return ""
		}
	case kindCrossEntropy:
		if m.classes(t) {
			return ""
		}
	}
	return "found " + m.p.maker(t)
}

// is reports whether a tensor of the step may be one of the source; compare decides it. What has another
// name, and another maker, is it not.
func (m *lossMatch) is(t, of graph.TensorID) bool {
	if t < 0 || of < 0 {
		return false
	}
	id, known := m.p.counterpart(t)
	if !known || id != of && m.p.base(id) != m.p.base(of) {
		return false
	}
	m.found = append(m.found, [2]graph.TensorID{t, of})
	return true
}

// isLabels reports whether a tensor is the input of the labels.
func (m *lossMatch) isLabels(t graph.TensorID) bool {
	t = m.p.through(t)
	x := m.p.g.Tensors[t]
	return x.Input && x.Data == nil && x.Name == m.labels
}

// difference is y - labels.
func (m *lossMatch) difference(t graph.TensorID) bool {
	n := m.p.node(t, "Sub", 2)
	return n != nil && m.is(m.p.through(n.Inputs[0]), m.y) && m.isLabels(n.Inputs[1]) && m.p.sameShape(n.Inputs[0], n.Inputs[1])
}

// logits is the mean of softplus(x) - x·labels, with y or what a Sigmoid makes y of for x.
func (m *lossMatch) logits(t graph.TensorID) bool {
	sub := m.p.node(m.p.mean(t), "Sub", 2)
	if sub == nil {
		return false
	}
	soft, product := m.p.node(sub.Inputs[0], "Softplus", 1), m.p.node(sub.Inputs[1], "Mul", 2)
	return soft != nil && product != nil && soft.Inputs[0] == product.Inputs[0] && m.isLabels(product.Inputs[1]) &&
		m.p.sameShape(product.Inputs[0], product.Inputs[1]) && (m.is(m.p.through(soft.Inputs[0]), m.y) || m.before(soft.Inputs[0], "Sigmoid"))
}

// probabilities is -mean(labels·log y + (1-labels)·log(1-y)), each logarithm at least -100.
func (m *lossMatch) probabilities(t graph.TensorID) bool {
	p := m.p
	neg := p.node(t, "Neg", 1)
	if neg == nil {
		return false
	}
	sum := p.node(p.mean(neg.Inputs[0]), "Add", 2)
	if sum == nil {
		return false
	}
	log := func(t graph.TensorID) graph.TensorID {
		clip := p.node(t, "Clip", 2)
		if clip == nil || !p.number(clip.Inputs[1], -100) {
			return none
		}
		return p.operand(clip.Inputs[0], "Log")
	}
	rest := func(t graph.TensorID) graph.TensorID {
		sub := p.node(t, "Sub", 2)
		if sub == nil || !p.number(sub.Inputs[0], 1) {
			return none
		}
		return sub.Inputs[1]
	}
	a, b := p.node(sum.Inputs[0], "Mul", 2), p.node(sum.Inputs[1], "Mul", 2)
	if a == nil || b == nil {
		return false
	}
	y := log(a.Inputs[1])
	return y >= 0 && rest(log(b.Inputs[1])) == y && rest(b.Inputs[0]) == a.Inputs[0] && m.isLabels(a.Inputs[0]) && p.sameShape(y, a.Inputs[0]) && m.is(p.through(y), m.y)
}

// classes is the mean of the negative log-likelihood over the labels that count: a sum by their number,
// in which the operator or, of scores that were widened, a ReduceSum adds them up.
func (m *lossMatch) classes(t graph.TensorID) bool {
	p := m.p
	quotient := p.node(t, "Div", 2)
	if quotient == nil {
		return false
	}
	reduction, counts := "sum", quotient.Inputs[1]
	t = quotient.Inputs[0]
	if n := p.node(t, "ReduceSum", 0); n != nil && p.whole(n) {
		reduction, t = "none", n.Inputs[0]
	}
	if n := p.node(counts, "ReduceSum", 0); n != nil && p.whole(n) {
		counts = n.Inputs[0]
	}
	equal := p.node(p.operand(p.cast(counts), "Not"), "Equal", 2)
	if equal == nil || !p.integer(equal.Inputs[1], -100) {
		return false
	}
	var scores, labels graph.TensorID
	n := p.node(t, "NegativeLogLikelihoodLoss", 2)
	if n != nil {
		soft := p.node(n.Inputs[0], "LogSoftmax", 1)
		if soft == nil || !has(soft, "axis", 1) {
			return false
		}
		scores, labels = soft.Inputs[0], n.Inputs[1]
	} else if n = p.node(t, "SoftmaxCrossEntropyLoss", 2); n != nil && p.g.Tensors[t].Out == 0 {
		scores, labels = n.Inputs[0], n.Inputs[1]
	} else {
		return false
	}
	a := n.Attr("reduction")
	if !has(n, "ignore_index", -100) || a == nil || a.String != reduction || len(n.Attrs) != 2 || equal.Inputs[0] != labels {
		return false
	}
	return m.scores(scores, labels)
}

// scores are those of classes along axis 1: y, or what a Softmax makes y of, with the class axis moved
// there; and labels have the shape without it.
func (m *lossMatch) scores(t, labels graph.TensorID) bool {
	p := m.p
	t = p.through(t)
	shape := p.g.Tensors[t].Type.Shape
	if m.isLabels(labels) && m.is(t, m.y) {
		return true
	}
	if n := p.node(t, "Transpose", 1); n != nil {
		perm := n.Attr("perm")
		if perm == nil || len(perm.Ints) < 2 || !slices.IsSorted(slices.Delete(slices.Clone(perm.Ints), 1, 2)) {
			return false
		}
		t = n.Inputs[0]
	} else if n := p.node(t, "Reshape", 2); n != nil && len(shape) == 2 && !m.is(t, m.y) { // all axes before the last are one
		from := p.g.Tensors[n.Inputs[0]].Type.Shape
		if flat := p.node(p.through(labels), "Reshape", 2); flat != nil && len(from) > 0 && from[len(from)-1] == shape[1] {
			t, labels = n.Inputs[0], flat.Inputs[0]
		}
	}
	t = p.through(t)
	return m.isLabels(labels) && (m.is(t, m.y) || m.before(t, "Softmax", "LogSoftmax"))
}

// before reports whether a tensor, perhaps reshaped, is what a node with one of these operators makes y
// of, apart from nodes that only pass its elements on.
func (m *lossMatch) before(t graph.TensorID, ops ...string) bool {
	y := m.y
	for range 64 {
		maker := m.p.of.Graph.Tensors[y].Maker
		if maker < 0 {
			return false
		}
		n := m.p.of.Graph.Nodes[maker]
		if n.Domain != "" || len(n.Inputs) == 0 {
			return m.inside(t, n)
		}
		if slices.Contains(ops, n.Op) {
			t = m.p.through(t)
			if again := m.p.node(t, "Reshape", 2); again != nil && m.is(m.p.through(again.Inputs[0]), n.Inputs[0]) {
				return true
			}
			return m.is(t, n.Inputs[0])
		}
		if !slices.Contains(passing, n.Op) {
			return m.inside(t, n)
		}
		y = n.Inputs[0]
	}
	return false
}

// inside reports whether a tensor is one of those by which the step replaces a node of the source, such as
// a convolution with a Sigmoid in it.
func (m *lossMatch) inside(t graph.TensorID, old *graph.Node) bool {
	if _, known := m.p.counterpart(t); known {
		return false
	}
	reads := map[graph.TensorID]bool{}
	old.Reads(func(in graph.TensorID) { reads[in], reads[m.p.base(in)] = true, true })
	_, _, wrong := m.p.within(t, func(u, id graph.TensorID) bool {
		if reads[id] || reads[m.p.base(id)] {
			m.found = append(m.found, [2]graph.TensorID{u, id})
			return true
		}
		return false
	})
	if wrong == "" {
		m.p.claimed[plan.OpName(old)] = true
	}
	return wrong == ""
}

// passing are operators that pass all elements on, in their order.
var passing = []string{"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}

// has reports whether an integer attribute has a value.
func has(n *graph.Node, name string, v int64) bool {
	a := n.Attr(name)
	return a != nil && a.Type == graph.AttrInt && a.Int == v
}

// node returns the node that makes a tensor if it has an operator of ai.onnx and that many inputs (0: any
// number); nil otherwise.
func (p *prover) node(t graph.TensorID, op string, inputs int) *graph.Node {
	if t < 0 || p.g.Tensors[t].Maker < 0 {
		return nil
	}
	n := p.g.Nodes[p.g.Tensors[t].Maker]
	if n.Op != op || n.Domain != "" || inputs > 0 && len(n.Inputs) != inputs || slices.Contains(n.Inputs[:inputs], graph.TensorID(none)) {
		return nil
	}
	return n
}

// operand is the operand of a unary operator, none if another makes a tensor.
func (p *prover) operand(t graph.TensorID, op string) graph.TensorID {
	if n := p.node(t, op, 1); n != nil {
		return n.Inputs[0]
	}
	return none
}

// maker names the node that makes a tensor.
func (p *prover) maker(t graph.TensorID) string {
	if t < 0 || p.g.Tensors[t].Maker < 0 {
		return label(p.g, t)
	}
	return p.g.Label(p.g.Tensors[t].Maker)
}

// cast goes through a Cast.
func (p *prover) cast(t graph.TensorID) graph.TensorID {
	if from := p.operand(t, "Cast"); from >= 0 {
		return from
	}
	return t
}

// through goes through Identity nodes, and Casts to a floating-point type that is no narrower, which the
// source lacks.
func (p *prover) through(t graph.TensorID) graph.TensorID {
	for t >= 0 {
		if _, known := p.counterpart(t); known {
			return t
		}
		from := p.operand(t, "Identity")
		if from < 0 {
			from = p.operand(t, "Cast")
			if from < 0 || !p.g.Tensors[from].Type.Elem.Floating() || p.g.Tensors[from].Type.Elem.Bits() > p.g.Tensors[t].Type.Elem.Bits() {
				return t
			}
		}
		t = from
	}
	return t
}

// mean is what a ReduceMean over all axes reads, none if no such node makes a tensor.
func (p *prover) mean(t graph.TensorID) graph.TensorID {
	if n := p.node(t, "ReduceMean", 0); n != nil && p.whole(n) {
		return n.Inputs[0]
	}
	return none
}

// whole reports whether a node reduces all axes, and leaves none.
func (p *prover) whole(n *graph.Node) bool {
	return len(n.Outputs) > 0 && len(p.g.Tensors[n.Outputs[0]].Type.Shape) == 0 && has(n, "keepdims", 0) && len(n.Attrs) == 1
}

// number reports whether a tensor is an initializer with one number.
func (p *prover) number(t graph.TensorID, v float64) bool {
	return t >= 0 && len(p.g.Tensors[t].Type.Shape) == 0 && p.holds(t, &numbers.List{Floats: []float64{v}})
}

// integer reports whether a tensor is an initializer with one integer.
func (p *prover) integer(t graph.TensorID, v int64) bool {
	return t >= 0 && len(p.g.Tensors[t].Type.Shape) == 0 && p.holds(t, &numbers.List{Ints: []int64{v}})
}

// sameShape reports whether two tensors have the same shape.
func (p *prover) sameShape(a, b graph.TensorID) bool {
	return slices.Equal(p.g.Tensors[a].Type.Shape, p.g.Tensors[b].Type.Shape)
}
