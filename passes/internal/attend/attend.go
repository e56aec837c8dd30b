// Package attend replaces attention that a graph spells out, as exporters write it, by the operator
// Attention of opset 23, which runtimes compute without the scores in memory.
//
// What it finds is softmax(scale · queries · keysᵀ + mask) · values, from the Softmax outwards:
//
//	einsum.go   products that are an Einsum
//	find.go     the nodes from the weights to the product with the values, and from the Softmax back to
//	            that of queries and keys
//	layout.go   queries, keys and values of other ranks and orders of axes, and heads that share keys
//	mask.go     what is added to the scores, or replaces them
//	write.go    the nodes that stand for it
//
// Results are those of the given graph up to rounding, and where a query sees no key: there Attention
// gives 0, and a Softmax of -Inf alone no number.
package attend

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Opset is the first that has Attention.
const Opset = 23

// Report says what was found.
type Report struct {
	Tensors []string       // results of the nodes that were added, in the order of the graph
	Kept    map[string]int // attentions that keep their scores, by the reason
	Scores  []string       // tensors of scores and weights that would be in no memory
}

// Reasons lists the reasons in a fixed order.
func (r *Report) Reasons() []string { return slices.Sorted(maps.Keys(r.Kept)) }

// Find says what Rewrite would replace in an inferred model of any opset; values are the folded
// elements of its tensors.
func Find(m *graph.Model, values []*ops.Value) *Report {
	r, _ := find(m, values)
	return r
}

// find also returns the nodes Einsum, by their results, that are products of the attentions.
func find(m *graph.Model, values []*ops.Value) (*Report, map[graph.TensorID]bool) {
	out := *m
	out.Graph = m.Graph.Clone()
	stands := products(out.Graph, func(*graph.Node) bool { return true })
	f := newFinder(&out, values)
	r := &Report{Kept: f.kept}
	used := map[graph.TensorID]bool{}
	for _, a := range f.all() {
		r.Tensors = append(r.Tensors, f.g.Tensors[result(a, stands)].Name)
		for _, n := range a.inner {
			r.Scores = append(r.Scores, f.g.Tensors[n.Outputs[0]].Name)
		}
		for _, n := range append(a.inner, a.last) {
			if of := stands[n.Outputs[0]]; of != nil {
				used[of.Outputs[0]] = true
			}
		}
	}
	return r, used
}

// result is what a group makes in the given graph.
func result(a *attention, stands map[graph.TensorID]*graph.Node) graph.TensorID {
	if of := stands[a.last.Outputs[0]]; of != nil {
		return of.Outputs[0]
	}
	return a.last.Outputs[0]
}

// Rewrite returns a copy of an inferred model of opset 23 or later, without local functions, in which
// nodes Attention stand for attention that is spelled out in the main graph.
func Rewrite(m *graph.Model, values []*ops.Value) (*graph.Model, *Report, error) {
	r, used := find(m, values)
	out := *m
	out.Graph = m.Graph.Clone()
	products(out.Graph, func(n *graph.Node) bool { return used[n.Outputs[0]] })
	f := newFinder(&out, values)
	w := newWriter(f)
	for _, a := range f.all() {
		w.write(a)
	}
	if err := w.finish(); err != nil {
		return nil, nil, err
	}
	return &out, r, nil
}
