package autodiff

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// parameters returns the inputs of a node that usually are weights, and those
// inputs that are biases, to which weight decay does not apply.
func parameters(n *graph.Node) (weights, biases []int) {
	if op := ops.Lookup(n.Domain, n.Op); op != nil {
		return op.Weights, op.Biases
	}
	return nil, nil
}

// recordRoles records which inputs of a node are weights, before other nodes
// replace it.
func (s *trainer) recordRoles(n *graph.Node) {
	weights, biases := parameters(n)
	for i, t := range n.Inputs {
		if t == graph.None || !slices.Contains(weights, i) {
			continue
		}
		was, known := s.expanded[t]
		s.expanded[t] = role{kind: ops.Lookup(n.Domain, n.Op).Kind(i), flat: slices.Contains(biases, i) && (was.flat || !known)}
	}
}

// role says as what a tensor is read.
type role struct {
	kind string // of parameter; "": it is none
	flat bool   // only without weight decay
	no   reason // why it is no parameter
}

// reason is why an initializer is not trained.
type reason struct{ kind, text string }

// Kinds of initializers that are not trained (Step.NotTrained).
const (
	kindLiteral    = "literal"
	kindConstant   = "constant"
	kindMask       = "mask"
	kindTable      = "table"
	kindSparse     = "sparse"
	kindStatistics = "statistics"
	kindOther      = "other"
)

// exportersOwn matches names that exporters give to constants.
var exportersOwn = regexp.MustCompile(`^(val_\d+|_to_copy(_\d+)?|onnx::(Add|Mul|Concat|Expand|Slice)_\d+|.*Constant.*)$`)

// rotary matches the name of the frequencies of rotary embeddings, which PyTorch
// modules compute and store as buffers.
var rotary = regexp.MustCompile(`(^|[./])inv_freq$`)

// buffers matches names of masks and sine tables, for tensors whose values are
// not in the file.
var buffers = regexp.MustCompile(`(^|[./_])(mask|pe)$`)

// maskValue is larger than any weight: an added initializer with an element of
// this magnitude is a mask.
const maskValue = 1e4

// maskElements is the largest number of elements that are examined.
const maskElements = 1 << 24

// computed judges by its values why a tensor that is added, multiplied or
// concatenated is not a weight; no reason if it may be one. Causal masks are often
// initializers of zeros and -1e9, or of zeros and ones; positions may be sines
// and cosines, whose first row is sin 0 and cos 0.
func (s *trainer) computed(id ID) reason {
	d := s.g.Tensors[id].Data
	if d == nil {
		return reason{}
	}
	values, ok := d.Reals(maskElements)
	if !ok && buffers.MatchString(s.g.Tensors[id].Name) {
		return reason{kindTable, "its values are not in the file, and its name is typical of a mask or a table"}
	}
	row := 0
	if n := len(d.Dims); n > 0 && d.Dims[n-1] < int64(len(values)) {
		row = int(d.Dims[n-1])
	}
	zeros, ones, first, most := 0, 0, 0, 0.0
	for i, v := range values {
		switch most = max(most, math.Abs(v)); {
		case !(math.Abs(v) < maskValue):
			return reason{kindMask, "it is a mask: some of its elements are 10,000 or more, or not finite"}
		case v == 0:
			zeros++
		case v == 1:
			ones++
		}
		if i < row {
			first = zeros + ones
		}
	}
	binary := zeros+ones == len(values)
	switch {
	case len(d.Dims) > 1 && binary && zeros > 0 && ones > 0:
		return reason{kindMask, "it is a mask: its elements are 0 and 1"}
	case row > 1 && !binary && first == row && most <= 1 && most > 0.9:
		return reason{kindTable, "it is a table of sines and cosines: its first row is exactly 0 and 1"}
	}
	return reason{}
}

// selectParameters chooses the initializers to train.
func (s *trainer) selectParameters() error {
	s.g.Link()
	reaches := s.reachesLoss()
	trained, left := counts{}, counts{}
	for id, t := range s.g.Tensors {
		id := ID(id)
		if t.Data == nil || s.made[id] || !t.Type.Elem.Floating() {
			continue
		}
		asked := s.opt.Trainable != nil && s.opt.Trainable.MatchString(t.Name)
		frozen := s.opt.Freeze != nil && s.opt.Freeze.MatchString(t.Name)
		scalar := len(t.Type.Shape) == 0
		if s.opt.Trainable != nil && !asked || frozen {
			continue
		}
		if asked && (s.states[id] || s.onlyStatistics(id)) {
			s.leaveOut(left, t, reason{kindStatistics, "matches --trainable, but it is running statistics, which follow the data"})
			continue
		}
		if s.states[id] {
			continue
		}
		r := s.role(id, id)
		why := r.no
		switch {
		case t.Data.Sparse != nil:
			why = reason{kindSparse, "it is sparse"}
		case !reaches[id] && asked && !scalar:
			e := graph.Errorf("matches --trainable, and the loss does not depend on it: expected a differentiable path to the loss")
			e.Tensor = t.Name
			return e
		case !reaches[id]:
			continue
		case asked:
			why = reason{}
		case r.kind != "" && !scalar:
			why = reason{}
		case elements(t.Data.Dims) == 1:
			why = reason{kindLiteral, "it is a number"}
		}
		if asked && why.kind != "" {
			e := graph.Errorf("matches --trainable: %s: expected a dense weight", why.text)
			e.Tensor = t.Name
			return e
		}
		if why.kind != "" {
			s.leaveOut(left, t, why)
			continue
		}
		if r.flat || len(t.Type.Shape) <= 1 && r.kind == "" {
			s.noDecay[id] = true
		}
		if t := s.ties[id]; t != nil {
			s.step.Tied = append(s.step.Tied, *t)
		}
		if r.kind == "" {
			r.kind = kindOther
		}
		trained.add(r.kind, t)
		s.parameters = append(s.parameters, id)
	}
	s.step.Trained, s.step.NotTrained = trained.list(), left.list()
	if len(s.parameters) == 0 {
		return graph.Errorf("no parameter to train: expected floating-point initializers that the loss depends on (--trainable)")
	}
	return nil
}

// leaveOut counts an initializer that is not trained, and names it unless it is a
// literal: of these there may be thousands.
func (s *trainer) leaveOut(left counts, t *graph.Tensor, why reason) {
	left.add(why.kind, t)
	if why.kind != kindLiteral {
		s.step.LeftOut = append(s.step.LeftOut, fmt.Sprintf("%s: %s", graph.Short(t.Name), why.text))
	}
}

// onlyStatistics reports whether a tensor is read as running statistics and as nothing
// else.
func (s *trainer) onlyStatistics(id ID) bool {
	list := s.sites(id)
	return len(list) > 0 && !slices.ContainsFunc(list, func(r site) bool { return !r.statistics() })
}

// counts are initializers by kind.
type counts map[string]Count

func (c counts) add(kind string, t *graph.Tensor) {
	n := c[kind]
	c[kind] = Count{kind, n.Initializers + 1, n.Elements + elements(t.Data.Dims)}
}

// list sorts the kinds: the most elements first.
func (c counts) list() []Count {
	return slices.SortedFunc(maps.Values(c), func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Elements, a.Elements), strings.Compare(a.Kind, b.Kind))
	})
}

// reachesLoss finds the tensors on which the loss depends through operators that
// pass gradients. Operators without a rule count as such: they are refused if a
// parameter lies before them.
func (s *trainer) reachesLoss() map[ID]bool {
	reaches := map[ID]bool{s.loss: true}
	for k := len(s.g.Nodes) - 1; k >= 0; k-- {
		n := s.g.Nodes[k]
		if !slices.ContainsFunc(n.Outputs, func(t ID) bool { return t != graph.None && reaches[t] }) {
			continue
		}
		r := LookupRule(n.Domain, n.Op)
		for i, t := range n.Inputs {
			if t != graph.None && carries(s.typeOf(t)) && (r == nil || r.flows(i, s.typeOf(t).Elem)) {
				reaches[t] = true
			}
		}
		for _, t := range n.Captures {
			reaches[t] = true
		}
	}
	return reaches
}

// role says as what a tensor is read. It is the initializer root, or derives from it
// through Rule.Forwards.
func (s *trainer) role(id, root ID) role {
	is := role{flat: true}
	if r, expanded := s.expanded[id]; expanded {
		is = r
	}
	name := s.g.Tensors[root].Name
	if rotary.MatchString(name) {
		return role{no: reason{kindTable, "its name is typical of the frequencies of rotary embeddings"}}
	}
	for _, k := range s.g.Tensors[id].Readers {
		n := s.g.Nodes[k]
		_, biases := parameters(n)
		rule := LookupRule(n.Domain, n.Op)
		for i, t := range n.Inputs {
			if t != id {
				continue
			}
			kind, why := s.kind(n, i), reason{}
			switch takes := rule != nil && rule.TakesConstants; {
			case takes:
				why = s.constantFor(n, i, root)
			case kind == "" && rule != nil && rule.Forwards && i == 0:
				for _, out := range n.Outputs {
					if out != graph.None {
						is.also(s.role(out, root))
					}
				}
				continue
			case kind == "":
				why = reason{kindOther, "read as input " + fmt.Sprint(i) + " of " + n.OpName()}
			}
			if why.kind != "" {
				is.also(role{flat: true, no: why})
				continue
			}
			is.also(role{kind: kind, flat: slices.Contains(biases, i) || len(s.shape(id)) == 1})
		}
	}
	is.flat = is.flat && is.kind != ""
	return is
}

// also adds what another reader takes the tensor for.
func (r *role) also(o role) {
	if r.kind == "" {
		r.kind = o.kind
	}
	if o.kind != "" {
		r.flat = r.flat && o.flat
	}
	if r.no.kind == "" {
		r.no = o.no
	}
}

// kind is the kind of parameter that an input of a node usually is; "" if it usually is
// none.
func (s *trainer) kind(n *graph.Node, i int) string {
	if op := ops.Lookup(n.Domain, n.Op); op != nil && op.Kind(i) != "" {
		return op.Kind(i)
	}
	if rule := LookupRule(n.Domain, n.Op); rule != nil && rule.TakesConstants {
		return "token"
	}
	return ""
}

// constantFor judges why an operand of Add, Mul or Concat is a constant; no reason if it
// may be a weight.
func (s *trainer) constantFor(n *graph.Node, i int, root ID) reason {
	t := s.g.Tensors[root]
	if t.Data != nil && elements(t.Data.Dims) == 1 && !s.biasOfOne(n, i) {
		return reason{kindLiteral, "it is a number"}
	}
	if exportersOwn.MatchString(t.Name) {
		return reason{kindConstant, "its name is one that exporters give to constants"}
	}
	return s.computed(root)
}

// biasOfOne reports whether a node adds one number to a product or convolution of one
// channel: such a number is its bias, and not a literal.
func (s *trainer) biasOfOne(n *graph.Node, i int) bool {
	if len(n.Inputs) != 2 || s.kind(n, i) != "bias" {
		return false
	}
	x := s.g.Tensors[n.Inputs[1-i]]
	if x.Maker < 0 || len(x.Type.Shape) == 0 {
		return false
	}
	m := s.g.Nodes[x.Maker]
	op, channels := ops.Lookup(m.Domain, m.Op), x.Type.Shape[len(x.Type.Shape)-1]
	if op == nil {
		return false
	}
	switch op.Kind(1) {
	case "convolution":
		channels = x.Type.Shape[min(1, len(x.Type.Shape)-1)]
	case "product":
	default:
		return false
	}
	return channels == 1
}
