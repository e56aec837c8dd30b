package verify

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/same"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// repeated finds the repetitions of the main graph.
func (v *verifier) repeated() bool {
	v.again = v.main.repetitions()
	return true
}

// repetitions returns for each node the node that it repeats according to the
// plan, or none; nil if no node repeats another. A repetition must have the
// operator and attributes of an earlier node and read the same values, possibly
// through other instances and transfers: then the graph without repetitions
// computes the same. A wrong claim is reported, and the step counts as a node of
// its own.
func (s *scope) repetitions() []graph.NodeID {
	r := repetitions{s: s, again: make([]graph.NodeID, len(s.g.Nodes)), value: make([]graph.TensorID, len(s.g.Tensors))}
	for t := range r.value {
		r.value[t] = graph.TensorID(t)
	}
	found := false
	for i, n := range s.g.Nodes {
		r.again[i] = none
		if n.IsSwap() {
			r.value[n.Outputs[0]] = r.value[n.Inputs[0]]
		}
		if i >= len(s.v.Plan.Steps) || s.v.Plan.Steps[i].Again == nil {
			continue
		}
		found = true
		id, first := graph.NodeID(i), *s.v.Plan.Steps[i].Again
		if first < 0 || first >= i || r.again[first] != none {
			s.fault(CodeRepetition, "%s: again: expected an earlier step that is no repetition, found %d", s.g.Label(id), first)
			continue
		}
		if wrong := r.check(id, graph.NodeID(first)); wrong != "" {
			s.fault(CodeRepetition, "%s is marked as a repetition of %s: %s", s.g.Label(id), s.g.Label(graph.NodeID(first)), wrong)
			continue
		}
		r.again[i] = graph.NodeID(first)
		r.take(id, graph.NodeID(first))
	}
	if !found {
		return nil
	}
	return r.again
}

// repetitions holds what is known of the steps so far.
type repetitions struct {
	s       *scope
	again   []graph.NodeID
	value   []graph.TensorID // by tensor: the first tensor with the same value
	effects []bool
}

// check says why a node is not a repetition of another; "" if it is one.
func (r *repetitions) check(id, first graph.NodeID) string {
	g := r.s.g
	n, f := g.Nodes[id], g.Nodes[first]
	if r.effects == nil {
		r.effects = graph.Effects(g)
	}
	switch {
	case n.Op != f.Op || n.Domain != f.Domain || n.Overload != f.Overload:
		return fmt.Sprintf("expected operator %s, found %s", plan.OpName(f), plan.OpName(n))
	case r.effects[id] && !ops.Seeded(n):
		return "expected a node with the same result in every run, found a random or unknown one"
	case len(n.Inputs) != len(f.Inputs):
		return fmt.Sprintf("expected %s, found %d", subject.Count(len(f.Inputs), "input"), len(n.Inputs))
	case len(n.Outputs) > len(f.Outputs):
		return fmt.Sprintf("expected at most %s, found %d", subject.Count(len(f.Outputs), "output"), len(n.Outputs))
	}
	same := same.Node{Outer: func(a, b graph.TensorID) bool { return r.value[a] == r.value[b] }}
	if source := r.s.v.Model.Source; source != nil {
		same.Source, same.Other = source.Bytes, source.Bytes
	}
	if what := same.Attributes(n, f); what != "" {
		return fmt.Sprintf("expected the same attribute %q, found another", what)
	}
	equal := false
	for k, t := range n.Outputs {
		if t < 0 {
			continue
		}
		if f.Outputs[k] < 0 {
			return fmt.Sprintf("expected no output %d, found %s", k, r.s.name(t))
		}
		in := r.differs(n, f, k)
		if in < 0 {
			equal = true
			continue
		}
		if x := g.Tensors[t]; len(x.Readers) > 0 || x.Output || !r.dependsLess(n, in) {
			return fmt.Sprintf("expected input %d to have the value of %s, found %s", in, r.name(f.Inputs[in]), r.name(n.Inputs[in]))
		}
	}
	if !equal {
		return "expected an output of the same value, found none"
	}
	return ""
}

// differs returns an input on which output k depends and whose values differ, or
// none.
func (r *repetitions) differs(n, f *graph.Node, k int) int {
	for in := range n.Inputs {
		a, b := n.Inputs[in], f.Inputs[in]
		if a < 0 && b < 0 || a >= 0 && b >= 0 && r.value[a] == r.value[b] {
			continue
		}
		if a < 0 || b < 0 || ops.Depends(n, k, in) {
			return in
		}
	}
	return none
}

// dependsLess reports whether some output of a node does not depend on an input.
func (r *repetitions) dependsLess(n *graph.Node, in int) bool {
	for k := range n.Outputs {
		if !ops.Depends(n, k, in) {
			return true
		}
	}
	return false
}

func (r *repetitions) name(t graph.TensorID) string {
	if t < 0 {
		return "none"
	}
	return r.s.name(t)
}

// take records the values that a repetition makes.
func (r *repetitions) take(id, first graph.NodeID) {
	n, f := r.s.g.Nodes[id], r.s.g.Nodes[first]
	for k, t := range n.Outputs {
		if t >= 0 && r.differs(n, f, k) < 0 {
			r.value[t] = r.value[f.Outputs[k]]
		}
	}
}

// addedNodes reports for each node whether the plan added it to the graph that
// was planned: it repeats another, or it is a transfer that is not in the input
// file's order. nil: none was added.
func (v *verifier) addedNodes(s *scope, again []graph.NodeID) []bool {
	listed := map[int]bool{}
	for _, step := range v.Plan.ProgramOrder.Steps {
		listed[step] = true
	}
	var list []bool
	for i, n := range s.g.Nodes {
		if again != nil && again[i] != none || n.IsSwap() && !listed[i] {
			if list == nil {
				list = make([]bool, len(s.g.Nodes))
			}
			list[i] = true
		}
	}
	return list
}

// without returns the scope of the graph before the plan added nodes: each reader
// reads its original tensor. from lists the remaining nodes.
func (s *scope) without(added []bool, again []graph.NodeID) (plain *scope, from []int32) {
	before := make([]graph.TensorID, len(s.g.Tensors)) // original of each tensor
	for t := range before {
		before[t] = graph.TensorID(t)
	}
	for i, n := range s.g.Nodes {
		switch {
		case !added[i]:
		case again != nil && again[i] != none:
			first := s.g.Nodes[again[i]]
			for k, t := range n.Outputs {
				if t >= 0 && k < len(first.Outputs) && first.Outputs[k] >= 0 {
					before[t] = before[first.Outputs[k]]
				}
			}
		default:
			before[n.Outputs[0]] = before[n.Inputs[0]]
		}
	}
	g := &graph.Graph{Name: s.g.Name, Inputs: s.g.Inputs}
	for _, t := range s.g.Tensors {
		u := *t
		g.Tensors = append(g.Tensors, &u)
	}
	values := func(list []graph.TensorID) []graph.TensorID {
		out := make([]graph.TensorID, len(list))
		for i, t := range list {
			if out[i] = t; t >= 0 {
				out[i] = before[t]
			}
		}
		return out
	}
	for i, n := range s.g.Nodes {
		if added[i] {
			continue
		}
		m := *n
		m.Inputs, m.Captures, m.Attrs = values(n.Inputs), values(n.Captures), capturing(n, before)
		g.Nodes = append(g.Nodes, &m)
		from = append(from, int32(i))
	}
	g.Outputs = values(s.g.Outputs)
	g.Link()
	plain = s.v.newScope(g, s.kind, s.where)
	plain.originals = before
	plain.share()
	for i := range plain.Storages {
		if of := s.storageOf[plain.origins[i].tensors[0]]; of != none {
			plain.Storages[i].Resident = s.Storages[of].Resident
		}
	}
	for i, id := range from {
		plain.Work[i] = s.Work[id]
	}
	return plain, from
}

// capturing returns the attributes of a node, whose bodies capture the originals of what they
// capture.
func capturing(n *graph.Node, original []graph.TensorID) []*graph.Attr {
	if len(n.Bodies()) == 0 {
		return n.Attrs
	}
	attrs := make([]*graph.Attr, len(n.Attrs))
	for i, a := range n.Attrs {
		attrs[i] = a.Clone()
		for _, body := range attrs[i].All() {
			for k, c := range body.Captures {
				body.Captures[k].Outer = original[c.Outer]
			}
		}
	}
	return attrs
}
