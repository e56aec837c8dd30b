package kv

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// rule says what an operator makes of keys: it sets the facts of the outputs, or refuses.
type rule func(r *rewriter, n *graph.Node) error

// rules are those of ai.onnx. A node that reads no keys, and has no output as long as them,
// needs none.
var rules = map[string]rule{
	"MatMul": matMul, "Einsum": einsum, "Softmax": softmax, "Attention": attention,

	"Transpose": transpose, "Reshape": reshape, "Flatten": reshape, "Unsqueeze": reshape, "Squeeze": reshape,
	"Expand": expand, "Concat": concat, "Split": split, "Slice": slice, "Gather": gather, "GatherND": gatherND,
	"Range": rangeOf, "ConstantOfShape": constantOfShape, "CumSum": cumSum, "Trilu": trilu,
}

// ruleOf is the rule of a node; nil if there is none.
func ruleOf(n *graph.Node) rule {
	switch {
	case n.Domain != "":
		return nil
	case ops.ClassOf(n) != ops.Elementwise:
		return rules[n.Op]
	case elementwiseTails[n.Op] == nil:
		return elementwise(nothing)
	}
	return elementwise(elementwiseTails[n.Op])
}

// node applies the rule of a node of the given graph.
func (r *rewriter) node(n *graph.Node) error {
	if list := r.extends(n); ops.Concatenates(n) && len(list) > 0 {
		return r.scatterInto(list[0], n)
	}
	// Numbers that are known are computed as for full caches; who reads them corrects them.
	if r.known(n) {
		return r.correctShape(n)
	}
	reads, grows := false, false
	for _, t := range n.Inputs {
		if t >= 0 && r.facts[t].kind >= past {
			reads = true
		}
	}
	for _, t := range n.Captures {
		if r.facts[t].kind != plain {
			return r.refuse(n, "its body reads %q, which depends on the tokens so far: expected that in the main graph alone", graph.Short(r.nameOf(t)))
		}
	}
	for _, t := range n.Outputs {
		if t < 0 {
			continue
		}
		axis, err := r.keysAxis(t)
		if err != nil {
			return err
		}
		grows = grows || axis >= 0
	}
	f := ruleOf(n)
	if !reads && !grows && (f == nil || n.Op != "Gather" && n.Op != "Slice") { // which read positions in their own ways
		return r.plainNode(n)
	}
	if !reads && f == nil {
		return r.refuse(n, "%q is as long as the tokens so far: expected an operator whose result for a longer cache is known", graph.Short(r.nameOf(n.Outputs[0])))
	}
	if f == nil {
		return r.refuse(n, "reads %q, which grows with the tokens: expected attention alone to do so (Attention, or MatMul, Softmax and MatMul with a mask)", graph.Short(r.grown(n)))
	}
	for _, t := range n.Inputs {
		if t >= 0 && r.facts[t].kind == past && len(r.extends(n)) == 0 {
			return r.refuse(n, "reads the cache %q: expected only the node that extends it to do so", graph.Short(r.nameOf(t)))
		}
	}
	return f(r, n)
}

// grown is the name of the first input of a node that grows.
func (r *rewriter) grown(n *graph.Node) string {
	for _, t := range n.Inputs {
		if t >= 0 && r.facts[t].kind >= past {
			return r.nameOf(t)
		}
	}
	return ""
}

// known sets the facts of a node whose outputs are known integers that depend on lengths
// alone, and reports whether it is one.
func (r *rewriter) known(n *graph.Node) bool {
	some := false
	var facts []fact
	for _, t := range n.Outputs {
		if t < 0 {
			facts = append(facts, fact{})
			continue
		}
		lines := r.numbers(t)
		if lines == nil {
			return false
		}
		f := fact{pure: true}
		if slices.ContainsFunc(lines, func(l line) bool { return l.slope != 0 }) {
			f.kind = position
		}
		facts, some = append(facts, f), true
	}
	if !some {
		return false
	}
	for k, t := range n.Outputs {
		if t >= 0 {
			r.facts[t] = facts[k]
		}
	}
	return true
}

// plainNode is a node that reads no keys and makes none: positions that it reads as numbers
// are corrected.
func (r *rewriter) plainNode(n *graph.Node) error {
	pure := len(n.Captures) == 0
	for i, t := range n.Inputs {
		if t < 0 {
			continue
		}
		if r.facts[t].kind == position && !slices.Contains(ops.Lengths(n), i) { // lengths are right as they stand, for full caches
			if err := r.number(n, i); err != nil {
				return err
			}
			pure = false
			continue
		}
		pure = pure && r.facts[t].pure
	}
	r.set(n, fact{pure: pure && !n.Semantics.Random && r.deterministic(n)})
	return nil
}

// set gives all outputs of a node a fact.
func (r *rewriter) set(n *graph.Node, f fact) {
	for _, t := range n.Outputs {
		if t >= 0 {
			r.facts[t] = f
		}
	}
}

// deterministic reports whether a node gives the same at each run.
func (r *rewriter) deterministic(n *graph.Node) bool {
	t := n.Outputs[0]
	if t < 0 {
		return false
	}
	g := r.full().g
	return !g.Nodes[g.Tensors[t].Maker].Semantics.Random
}

// refuse returns an error about a node.
func (r *rewriter) refuse(n *graph.Node, format string, args ...any) error {
	for i, m := range r.g.Nodes {
		if m == n {
			return graph.Errorf(format, args...).AtNode(r.g.Label(graph.NodeID(i)))
		}
	}
	return graph.Errorf(format, args...)
}

// input returns input i of a node, None if it is left out.
func input(n *graph.Node, i int) graph.TensorID {
	if i >= len(n.Inputs) {
		return graph.None
	}
	return n.Inputs[i]
}

// isKeys reports whether an input grows with the tokens.
func (r *rewriter) isKeys(n *graph.Node, i int) bool {
	t := input(n, i)
	return t >= 0 && r.facts[t].kind == keys
}

// numbersAt corrects the positions among some inputs.
func (r *rewriter) numbersAt(n *graph.Node, inputs ...int) error {
	for _, i := range inputs {
		if t := input(n, i); t >= 0 && r.facts[t].kind == position {
			if err := r.number(n, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// isPure reports whether all inputs of a node follow from constants and lengths.
func (r *rewriter) isPure(n *graph.Node) bool {
	return !slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool { return t >= 0 && !r.facts[t].pure })
}
