package training

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// shared compares keys, as their product reads them, or values of a graph.FlashAttention with a tensor of the
// source. The step may have them once for several heads of queries, where the source repeats them: then it
// compares which element of which tensor each is, on both sides, for the lengths of the plan.
func (a *attention) shared(input int, of graph.TensorID) {
	p, t := a.p, a.call.Inputs[input]
	heads, groups := p.lengths(a.call.Inputs[0]), p.lengths(t)
	if len(heads) != 4 || len(groups) != 4 || groups[1] == heads[1] || groups[1] < 1 || heads[1]%groups[1] != 0 {
		p.meet(t, of)
		return
	}
	if err := p.inferSource(); err != nil {
		a.wrong = err.Error()
		return
	}
	step := layouts{g: p.g, skip: func(t graph.TensorID) graph.TensorID { t, _ = p.uncast(t); return t }, number: p.newNumber}
	source := layouts{g: p.of.Graph, skip: func(t graph.TensorID) graph.TensorID { return t }, number: p.oldNumber}
	x, y := step.of(t), source.of(of)
	x.axes[1] = merged(append(slices.Clone(x.axes[1]), atom{heads[1] / groups[1], 0}))
	if len(x.factors)+len(y.factors) > 0 || input == 2 && x.scale != y.scale || !reflect.DeepEqual(x.axes, y.axes) {
		a.wrong = fmt.Sprintf("input %d: expected the elements of %s of the source, or heads that it repeats", input, label(p.of.Graph, of))
		return
	}
	if input == 1 { // products, not a quotient: of keys times 0, no scale of scores makes others
		a.keys, a.scale = x.scale, a.scale*y.scale
	}
	if p.Plan.Ranges != nil {
		p.claimed["heads that share keys and values, but for one length"] = true
	}
	p.meet(x.root, y.root)
}

// lengths are those of the axes of a tensor of the step; nil if they are not known.
func (p *prover) lengths(t graph.TensorID) []int64 {
	l := layouts{g: p.g}
	if !l.exact(t) {
		return nil
	}
	return l.shape(t)
}
