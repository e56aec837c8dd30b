package autodiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/onnxmem/onnxmem/graph"
)

// differentiate emits the gradients, with respect to wrt, tensors that no node makes,
// of a scalar whose gradients with respect to outs, results of different nodes of
// which each depends on wrt, are seeds. It returns one gradient for each of wrt,
// graph.None if the scalar does not depend on it. nodes are the nodes of the forward
// graph in a topological order.
func (e *emitter) differentiate(nodes []*graph.Node, outs, seeds, wrt []ID) ([]ID, error) {
	t := newTape(e)
	e.forwardMakers = map[ID]*graph.Node{}
	for _, n := range nodes {
		for _, id := range n.Outputs {
			e.forwardMakers[id] = n
		}
	}
	nodes = e.lifted(e.composites(nodes))
	if err := t.analyse(nodes, outs, wrt); err != nil {
		return nil, err
	}
	grads := make([]ID, len(wrt))
	var asked gorgonia.Nodes
	for _, id := range wrt {
		if t.reached[id] {
			asked = append(asked, t.leaf(id))
		}
	}
	if err := t.feedBackend(nodes); err != nil {
		return nil, err
	}
	var made, given, found gorgonia.Nodes
	for k, out := range outs {
		n := t.tokens[out]
		seed, err := t.passTerm(n, seeds[k], 0)
		if err == nil {
			err = e.err
		}
		if err != nil {
			return nil, err
		}
		made, given = append(made, n), append(given, seed)
	}
	var err error
	if len(asked) > 0 {
		found, err = gorgonia.Backpropagate(made, given, asked)
	}
	if e.err != nil { // this error has more detail than gorgonia's, which wraps it
		return nil, e.err
	}
	if err != nil {
		var at *graph.Error
		if errors.As(err, &at) {
			return nil, at
		}
		return nil, fmt.Errorf("gorgonia: %v", err)
	}
	next := 0
	for i, id := range wrt {
		grads[i] = graph.None
		if !t.reached[id] {
			continue
		}
		t.of = e.g.Tensors[id].Name
		t.scope = t.of + ".grad/"
		if grads[i], err = t.sumTerms(t.tokens[id], found[next]); err != nil {
			return nil, err
		}
		next++
	}
	t.of, t.scope = "", ""
	return grads, nil
}

// analyse finds the tensors that need a gradient: those that depend on wrt and on
// which outs depend. It refuses an operator on such a path that has no rule.
func (t *tape) analyse(nodes []*graph.Node, outs, wrt []ID) error {
	for _, id := range wrt {
		t.need[id] = true
	}
	floating := func(id ID) bool { return id != graph.None && carries(t.g.Tensors[id].Type) }
	for _, n := range nodes {
		r := LookupRule(n.Domain, n.Op)
		depends := false
		for i, id := range n.Inputs {
			depends = depends || floating(id) && t.need[id] && (r == nil || r.flows(i, t.g.Tensors[id].Type.Elem))
		}
		for _, id := range n.Captures {
			depends = depends || floating(id) && t.need[id]
		}
		for _, id := range n.Outputs {
			if depends && floating(id) {
				t.need[id] = true
			}
		}
	}
	for _, id := range outs {
		t.reached[id] = true
	}
	var first func(others string) error // the error of the first node without a rule
	missing := map[string]bool{}
	lacks := func(n *graph.Node, id ID) {
		if missing[n.OpName()] = true; first == nil {
			first = func(others string) error { return t.noRule(n, id, others) }
		}
	}
	for k := len(nodes) - 1; k >= 0; k-- {
		n := nodes[k]
		if !t.outputReached(n) {
			continue
		}
		r := LookupRule(n.Domain, n.Op)
		for i, id := range n.Inputs {
			if !floating(id) || !t.need[id] || r != nil && !r.flows(i, t.g.Tensors[id].Type.Elem) {
				continue
			}
			if r == nil || r.Grad == nil {
				lacks(n, id)
			}
			t.reached[id] = true
		}
		for _, id := range n.Captures {
			if floating(id) && t.need[id] {
				lacks(n, id)
			}
		}
	}
	switch {
	case first == nil:
		return nil
	case len(missing) == 1:
		return first("")
	}
	return first(fmt.Sprintf(" (operators without one on the way to the loss: %s)", strings.Join(slices.Sorted(maps.Keys(missing)), "; ")))
}

// carries reports whether a gradient may flow through a value: one of floating-point
// numbers, or a sequence or optional, which may hold such.
func carries(t graph.Type) bool {
	return t.Elem.Floating() || t.Kind == graph.KindSequence || t.Kind == graph.KindOptional
}

// noRule returns the error for a node without a gradient rule between a parameter
// and the loss. others names all operators of such nodes, if there are several.
func (t *tape) noRule(n *graph.Node, id ID, others string) error {
	why := whyWithout(n.Domain, n.Op)
	if a := admissions[ruleKey{n.Domain, n.Op}]; a.why != nil {
		why = a.why(t.emitter, n)
	}
	if why == "" {
		why = "there is no rule for it"
	}
	err := graph.Errorf("operator %s has no gradient: %s: freeze the parameters before it (--freeze)%s", n.OpName(), why, others)
	err.Tensor = t.g.Tensors[id].Name
	return err.AtNode(label(n))
}
