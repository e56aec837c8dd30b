// Package attend replaces attention that a graph spells out, as exporters write it, by the operator
// Attention of opset 23, which runtimes compute without the scores in memory.
//
// What it finds is softmax(scale · queries · keysᵀ + mask) · values, from the Softmax outwards:
//
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
}

// Reasons lists the reasons in a fixed order.
func (r *Report) Reasons() []string { return slices.Sorted(maps.Keys(r.Kept)) }

// Find says what Rewrite would replace in an inferred model of any opset; values are the folded
// elements of its tensors.
func Find(m *graph.Model, values []*ops.Value) *Report {
	f := newFinder(m, values)
	r := &Report{Kept: f.kept}
	for _, a := range f.all() {
		r.Tensors = append(r.Tensors, f.g.Tensors[a.last.Outputs[0]].Name)
	}
	return r
}

// Rewrite returns a copy of an inferred model of opset 23 or later, without local functions, in which
// nodes Attention stand for attention that is spelled out in the main graph.
func Rewrite(m *graph.Model, values []*ops.Value) (*graph.Model, *Report, error) {
	out := *m
	out.Graph = m.Graph.Clone()
	f := newFinder(&out, values)
	w := newWriter(f)
	r := &Report{Kept: f.kept}
	for _, a := range f.all() {
		r.Tensors = append(r.Tensors, f.g.Tensors[a.last.Outputs[0]].Name)
		w.write(a)
	}
	if err := w.finish(); err != nil {
		return nil, nil, err
	}
	return &out, r, nil
}
