package autodiff

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
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
			if t != graph.None && recurrent(n) && i > 0 {
				s.expanded[t] = role{kind: kindState, flat: true}
			}
			continue
		}
		was, known := s.expanded[t]
		s.expanded[t] = role{kind: ops.Lookup(n.Domain, n.Op).Kind(i), flat: slices.Contains(biases, i) && (was.flat || !known)}
	}
}

// recurrent reports whether a node is an RNN, or of its kin.
func recurrent(n *graph.Node) bool {
	op := ops.Lookup(n.Domain, n.Op)
	return op != nil && slices.Contains(op.Kinds, kindRecurrent)
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
	kindBuffer     = "buffer"
	kindFilter     = "filter"
	kindOther      = "other"
)

// Kinds of parameters that are treated in a way of their own (ops.Op.Kinds).
const (
	kindConvolution   = "convolution"
	kindNormalization = "normalization"
	kindRecurrent     = "recurrent"
	kindState         = "state" // the first state of a recurrent node
)

// selectParameters chooses the initializers to train.
func (s *trainer) selectParameters() (err error) {
	s.g.Link()
	s.files = constant.NewFiles(s.source)
	defer func() { err = errors.Join(err, s.files.Close()) }()
	reaches := s.reachesLoss()
	adapters := map[string]bool{}
	for _, name := range s.opt.Adapters {
		adapters[name] = true
	}
	trained, left := counts{}, counts{}
	for id, t := range s.g.Tensors {
		id := ID(id)
		if t.Data == nil || s.made[id] || !t.Type.Elem.Floating() {
			continue
		}
		asked := adapters[t.Name] || s.opt.Trainable != nil && s.opt.Trainable.MatchString(t.Name)
		frozen := s.opt.Freeze != nil && s.opt.Freeze.MatchString(t.Name)
		scalar := len(t.Type.Shape) == 0
		if (s.opt.Trainable != nil || len(adapters) > 0) && !asked || frozen || adapters[t.Name] && !reaches[id] {
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
		why, told := r.no, s.told(id)
		switch {
		case t.Data.Sparse != nil:
			why = reason{kindSparse, "it is sparse"}
		case !reaches[id] && asked && !scalar:
			e := graph.Errorf("matches --trainable, and the loss does not depend on it: expected a differentiable path to the loss")
			e.Tensor = t.Name
			return e
		case !reaches[id]:
			continue
		case asked, t.Origin == graph.OriginParameter && (r.kind != "" || r.no.kind != kindFilter && r.no.kind != kindTable):
			why = reason{}
		case told.kind != "":
			why = told
		case s.authored(t.Name), r.kind == "" && r.no.kind == kindOther && s.computed(id):
			if why = s.fixed(id); why.kind == "" && r.no.kind == kindMask {
				why = r.no
			}
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
	s.warnTwins()
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
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				for t := range reachesOutputs(body) {
					reaches[t] = true
				}
			}
		}
	}
	return reaches
}

// reachesOutputs finds the tensors of the outer graph on which the outputs of a body
// depend in that way. All outputs count: what the loss does not read of them, an iteration
// may hand to the next one.
func reachesOutputs(g *graph.Graph) map[ID]bool {
	inner := map[ID]bool{}
	for _, t := range g.Outputs {
		inner[t] = true
	}
	order, err := g.Topological()
	if err != nil {
		order = nil // refused elsewhere
	}
	for _, k := range slices.Backward(order) {
		n := g.Nodes[k]
		if !slices.ContainsFunc(n.Outputs, func(t ID) bool { return t != graph.None && inner[t] }) {
			continue
		}
		r := LookupRule(n.Domain, n.Op)
		for i, t := range n.Inputs {
			if t != graph.None && carries(g.Tensors[t].Type) && (r == nil || r.flows(i, g.Tensors[t].Type.Elem)) {
				inner[t] = true
			}
		}
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				for t := range reachesOutputs(body) {
					inner[t] = true
				}
			}
		}
	}
	outer := map[ID]bool{}
	for _, c := range g.Captures {
		if inner[c.Inner] {
			outer[c.Outer] = true
		}
	}
	return outer
}

// role says as what a tensor is read. It is the initializer root, or derives from it
// through Rule.Forwards.
func (s *trainer) role(id, root ID) role {
	is := role{flat: true}
	if r, expanded := s.expanded[id]; expanded {
		is = r
	}
	if is.kind == kindState {
		if is.kind = kindRecurrent; s.filled(root) {
			is = role{flat: true, no: reason{kindConstant, "it is the first state of a recurrent node, and its elements are equal"}}
		}
	}
	for _, k := range s.g.Tensors[id].Readers {
		n := s.g.Nodes[k]
		if s.inner[n] {
			continue
		}
		s.roleInBodies(n, id, root, &is)
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
			default:
				why = s.constantWeight(kind, root)
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

// roleInBodies adds what the bodies of a node take a tensor for that they capture.
func (s *trainer) roleInBodies(n *graph.Node, id, root ID, is *role) {
	for _, a := range n.Attrs {
		for _, body := range a.All() {
			for _, c := range body.Captures {
				if c.Outer == id {
					s.roleInBody(body, c.Inner, root, is)
				}
			}
		}
	}
}

// roleInBody is role within a body, where constants are judged by their names and elements.
func (s *trainer) roleInBody(g *graph.Graph, id, root ID, is *role) {
	for _, n := range g.Nodes {
		for _, a := range n.Attrs {
			for _, body := range a.All() {
				for _, c := range body.Captures {
					if c.Outer == id {
						s.roleInBody(body, c.Inner, root, is)
					}
				}
			}
		}
		_, biases := parameters(n)
		rule := LookupRule(n.Domain, n.Op)
		for i, t := range n.Inputs {
			kind := ""
			if t == id {
				kind = s.kind(n, i)
			}
			switch {
			case t != id:
			case kind == "" && rule != nil && rule.Forwards && i == 0:
				for _, out := range n.Outputs {
					if out != graph.None {
						s.roleInBody(g, out, root, is)
					}
				}
			case kind == "":
			default:
				why := s.constantWeight(kind, root)
				if rule != nil && rule.TakesConstants {
					why = s.constantOperand(root, false)
				}
				if why.kind != "" {
					kind = ""
				}
				is.also(role{kind: kind, flat: slices.Contains(biases, i) || len(s.shape(root)) == 1, no: why})
			}
		}
	}
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
	case kindConvolution:
		channels = x.Type.Shape[min(1, len(x.Type.Shape)-1)]
	case "product":
	default:
		return false
	}
	return channels == 1
}
