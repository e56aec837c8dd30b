package passes

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// orderByTraversal gives a region, whose bare problem is solved, the best order that ONNX
// Runtime's default traversal takes for some listing of its nodes, and keeps the listing for
// the file.
func (r *region) orderByTraversal(ctx context.Context, p *schedule.Problem, x *search) error {
	for id, n := range r.g.Nodes {
		switch {
		case n.Semantics.Call != nil:
			return graph.Errorf("calls a local function, whose nodes ONNX Runtime puts in its place before it orders them: expected none with a default order (say --inline-functions)").AtNode(r.g.Label(graph.NodeID(id)))
		case n.Domain == "" && slices.Contains(x.traversal.Expanded, n.Op):
			return graph.Errorf("ONNX Runtime replaces this operator by several nodes before it orders them: expected none with a default order (let it save the model first: optimized_model_filepath)").AtNode(r.g.Label(graph.NodeID(id)))
		}
	}
	search, end := x.context(ctx)
	defer end()
	best := r.solved.Evaluation.Peak
	var turns [][2]int32
	if x.keepRandom {
		turns = effectsInOrder(r.g, schedule.Program(p))
	}
	l := schedule.BestListing(search, p, r.solved.Orders, best, x.effort, turns)
	x.log.timedOut = x.log.timedOut || search.Err() != nil && ctx.Err() == nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.Peak == math.MaxInt64 {
		return r.turnedError(turns, l.Order)
	}
	if err := r.reorder(l.Order); err != nil {
		return err
	}
	at := make([]graph.NodeID, len(l.Order))
	for step, n := range l.Order {
		at[n] = graph.NodeID(step)
	}
	r.listing = make([]graph.NodeID, len(l.Nodes))
	for i, n := range l.Nodes {
		r.listing[i] = at[n]
	}
	if r.kind == mainGraph {
		// With a strategy that is given by name, the default order may be better than that.
		r.traversal = &plan.Traversal{Runtime: plan.TraversalONNXRuntime, BestPeakBytes: min(best, l.Peak)}
		x.log.notes = append(x.log.notes, traversalNote(best, l.Peak))
	}
	return nil
}

// turnedError says which nodes, that are to keep their order, do not in that of a runtime.
func (r *region) turnedError(turns [][2]int32, order []int32) error {
	for _, pair := range turns {
		if slices.Index(order, pair[1]) < slices.Index(order, pair[0]) {
			return graph.Errorf("ONNX Runtime's default order runs %s before it in every listing that was tried, and both draw random numbers, have an effect or are unknown: expected no default order for this graph, or nodes that may change places (without --keep-random-order)",
				r.g.Label(graph.NodeID(pair[1]))).AtNode(r.g.Label(graph.NodeID(pair[0])))
		}
	}
	return nil
}

// traversalNote says what the default order costs.
func traversalNote(best, peak int64) string {
	if peak <= best {
		return "ONNX Runtime's default order of the file has the peak of the best order"
	}
	return fmt.Sprintf("ONNX Runtime's default order of the file has a peak of %s, %.1f %% above the best order's %s: set its execution order to that of the file for that one (without --order default)",
		units.Short(peak), 100*float64(peak-best)/float64(best), units.Short(best))
}

// list puts the nodes of a region and its bodies into the order in which the file lists
// them.
func (r *region) list() {
	for _, b := range r.bodies {
		b.r.list()
	}
	if r.listing != nil {
		r.g.Reorder(r.listing)
	}
}
