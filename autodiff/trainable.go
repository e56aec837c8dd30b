package autodiff

import (
	"fmt"
	"math"
	"regexp"
	"slices"

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
		flat, known := s.expanded[t]
		s.expanded[t] = slices.Contains(biases, i) && (flat || !known)
	}
}

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
// concatenated is not a weight; "" if it may be one. Causal masks are often
// initializers of zeros and -1e9, or of zeros and ones; positions may be sines
// and cosines, whose first row is sin 0 and cos 0.
func (s *trainer) computed(id ID) string {
	d := s.g.Tensors[id].Data
	if d == nil {
		return ""
	}
	values, ok := d.Reals(maskElements)
	if !ok && buffers.MatchString(s.g.Tensors[id].Name) {
		return "its values are not in the file, and its name is typical of a mask or a table"
	}
	row := 0
	if n := len(d.Dims); n > 0 && d.Dims[n-1] < int64(len(values)) {
		row = int(d.Dims[n-1])
	}
	zeros, ones, first, most := 0, 0, 0, 0.0
	for i, v := range values {
		switch most = max(most, math.Abs(v)); {
		case !(math.Abs(v) < maskValue):
			return "it is a mask: some of its elements are 10,000 or more, or not finite"
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
		return "it is a mask: its elements are 0 and 1"
	case row > 1 && !binary && first == row && most <= 1 && most > 0.9:
		return "it is a table of sines and cosines: its first row is exactly 0 and 1"
	}
	return ""
}

// selectParameters chooses the initializers to train.
func (s *trainer) selectParameters() error {
	s.g.Link()
	reaches := s.reachesLoss()
	read := 0
	for id, t := range s.g.Tensors {
		id := ID(id)
		if t.Data == nil || s.states[id] || !t.Type.Elem.Floating() || len(t.Type.Shape) == 0 {
			continue
		}
		weight, flat, by := s.role(id, id)
		asked := s.opt.Trainable != nil && s.opt.Trainable.MatchString(t.Name)
		frozen := s.opt.Freeze != nil && s.opt.Freeze.MatchString(t.Name)
		why := ""
		switch {
		case s.opt.Trainable != nil && !asked, frozen:
			continue
		case t.Data.Sparse != nil:
			why = "it is sparse"
		case !reaches[id]:
			if asked {
				e := graph.Errorf("matches --trainable, and the loss does not depend on it: expected a differentiable path to the loss")
				e.Tensor = t.Name
				return e
			}
			continue
		case !weight && !asked:
			why = by
		}
		if why != "" {
			if asked {
				e := graph.Errorf("matches --trainable: %s: expected a dense weight", why)
				e.Tensor = t.Name
				return e
			}
			if elements(t.Data.Dims) > 1 && !isEmittedConstant(t) {
				s.step.LeftOut = append(s.step.LeftOut, fmt.Sprintf("%s: %s", graph.Short(t.Name), why))
			}
			continue
		}
		if read++; flat || len(t.Type.Shape) == 1 && !weight {
			s.noDecay[id] = true
		}
		if kinds := s.kinds(id); len(kinds) > 1 {
			s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("parameter %s is read by nodes of different kinds (%v): it is trained as one", graph.Short(t.Name), kinds))
		}
		s.parameters = append(s.parameters, id)
	}
	if len(s.parameters) == 0 {
		return graph.Errorf("no parameter to train: expected floating-point initializers that the loss depends on (--trainable)")
	}
	return nil
}

func isEmittedConstant(t *graph.Tensor) bool {
	return t.Data.Span.IsZero() && t.Data.Generate == nil && t.Data.External == nil
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
			if t != graph.None && s.typeOf(t).Elem.Floating() && (r == nil || r.flows(i, s.typeOf(t).Elem)) {
				reaches[t] = true
			}
		}
		for _, t := range n.Captures {
			reaches[t] = true
		}
	}
	return reaches
}

// role reports whether a tensor is read as a weight, whether only as one without
// weight decay, and, if it is not a weight, why. The tensor is the initializer
// root, or derives from it through Rule.Forwards.
func (s *trainer) role(id, root ID) (weight, flat bool, why string) {
	flat = true
	if f, expanded := s.expanded[id]; expanded {
		weight, flat = true, f
	}
	name := s.g.Tensors[root].Name
	if rotary.MatchString(name) {
		return false, false, "its name is typical of the frequencies of rotary embeddings"
	}
	for _, k := range s.g.Tensors[id].Readers {
		n := s.g.Nodes[k]
		weights, biases := parameters(n)
		rule := LookupRule(n.Domain, n.Op)
		for i, t := range n.Inputs {
			switch {
			case t != id:
			case slices.Contains(weights, i), rule != nil && rule.TakesConstants:
				if rule != nil && rule.TakesConstants && exportersOwn.MatchString(name) {
					why = "its name is one that exporters give to constants"
					continue
				}
				if rule != nil && rule.TakesConstants {
					if no := s.computed(root); no != "" {
						why = no
						continue
					}
				}
				weight = true
				flat = flat && (slices.Contains(biases, i) || len(s.shape(id)) == 1)
			case rule != nil && rule.Forwards && i == 0:
				for _, out := range n.Outputs {
					if out == graph.None {
						continue
					}
					w, f, y := s.role(out, root)
					weight, flat = weight || w, flat && f
					if why == "" {
						why = y
					}
				}
			case why == "":
				why = "read as input " + fmt.Sprint(i) + " of " + n.OpName()
			}
		}
	}
	return weight, flat && weight, why
}

// kinds returns the operators that read a parameter, if they read it as different
// kinds of weight.
func (s *trainer) kinds(id ID) []string {
	var kinds []string
	for _, k := range s.g.Tensors[id].Readers {
		n := s.g.Nodes[k]
		weights, _ := parameters(n)
		if slices.Contains(weights, slices.Index(n.Inputs, id)) && !slices.Contains(kinds, n.Op) {
			kinds = append(kinds, n.Op)
		}
	}
	return kinds
}
