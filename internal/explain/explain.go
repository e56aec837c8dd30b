// Package explain says why the peak of a plan, or of the order of a bare problem, is what it
// is: the buffers at the peak, why no order does better, and what would lower it.
//
//	explain.go    what is explained
//	text.go       the explanation for people
//	json.go       the same as an object
//	limit.go      what runs again and what is swapped below a limit
//	slices.go     what runs in slices
//	precision.go  what is float32 in a plan in 16 bits
//	hints.go      options that would lower the peak
package explain

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Explanation is the explanation of an order of a problem.
type Explanation struct {
	*schedule.Explanation
	p      *schedule.Problem
	order  []int32
	limit  *explainLimit  // nil: none
	slices *explainSlices // nil: none
	wide   *explainWide   // nil: the plan is not in 16 bits
	hint   *passes.FoldHint

	file string // its name, for people
	step []int  // of each node: its step
}

// Model explains the plan of a model whose nodes are in the planned order. name is that of its
// file; hint is what --fold any would save, or nil.
func Model(ctx context.Context, name string, m *graph.Model, p *plan.Plan, hint *passes.FoldHint, opt schedule.ExplainOptions) (*Explanation, error) {
	found, err := passes.Explain(ctx, m, p, opt)
	if err != nil {
		return nil, err
	}
	x := &Explanation{
		Explanation: found.Explanation, p: found.Problem, limit: limitOf(m.Graph, p), slices: explainSlicesOf(p), hint: hint,
		wide: explainWideOf(m.Graph, p, found.Explanation, found.Problem), file: name,
	}
	for i := range found.Problem.Nodes {
		x.order = append(x.order, int32(i))
	}
	return x.numbered(), nil
}

// Problem explains an order of a bare problem. name is that of its file.
func Problem(name string, p *schedule.Problem, order []int32, x *schedule.Explanation) *Explanation {
	return (&Explanation{Explanation: x, p: p, order: order, file: name}).numbered()
}

// numbered adds the step of each node.
func (w *Explanation) numbered() *Explanation {
	w.step = make([]int, len(w.order))
	for i, v := range w.order {
		w.step[v] = i
	}
	return w
}
