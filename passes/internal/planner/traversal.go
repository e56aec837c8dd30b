package planner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
)

// Traversable refuses a graph that the runtime changes before it orders the nodes.
func (x *Search) Traversable(g *graph.Graph) error {
	for id, n := range g.Nodes {
		switch {
		case n.Semantics.Call != nil:
			return graph.Errorf("calls a local function, whose nodes ONNX Runtime puts in its place before it orders them: expected none with a default order (say --inline-functions)").AtNode(g.Label(graph.NodeID(id)))
		case n.Domain == "" && slices.Contains(x.Traversal.Expanded, n.Op):
			return graph.Errorf("ONNX Runtime replaces this operator by several nodes before it orders them: expected none with a default order (let it save the model first: optimized_model_filepath)").AtNode(g.Label(graph.NodeID(id)))
		}
	}
	return nil
}

// listAs keeps the listing of nodes whose default order is the given one, in which the region
// is. best is the smallest peak of any order.
func (r *Region) listAs(order, nodes []int32, best int64) {
	at := make([]graph.NodeID, len(order))
	for step, n := range order {
		at[n] = graph.NodeID(step)
	}
	r.listing = make([]graph.NodeID, len(nodes))
	for i, n := range nodes {
		r.listing[i] = at[n]
	}
	if r.kind == mainGraph {
		// With a strategy that is given by name, the default order may be better than that.
		r.Traversal = &plan.Traversal{Runtime: plan.TraversalONNXRuntime, BestPeakBytes: min(best, r.Loads.Peak)}
	}
}

// turned names the nodes for an error about those of bare problems; the graphs are those of
// box.Graphs.
func turned(err error, graphs ...*graph.Graph) error {
	var e *box.TurnedError
	if errors.As(err, &e) {
		return turnedError(graphs[e.Graph], e.Turns, e.Order)
	}
	return err
}

// turnedError says which nodes, that are to keep their order, do not in that of a runtime.
func turnedError(g *graph.Graph, turns [][2]int32, order []int32) error {
	for _, pair := range turns {
		if slices.Index(order, pair[1]) < slices.Index(order, pair[0]) {
			return graph.Errorf("ONNX Runtime's default order runs %s before it in every listing that was tried, and both draw random numbers, have an effect or are unknown: expected no default order for this graph, or nodes that may change places (without --keep-random-order)",
				g.Label(graph.NodeID(pair[1]))).AtNode(g.Label(graph.NodeID(pair[0])))
		}
	}
	return nil
}

// TraversalNote says what the default order costs.
func TraversalNote(best, peak int64) string {
	if peak <= best {
		return "ONNX Runtime's default order of the file has the peak of the best order"
	}
	return fmt.Sprintf("ONNX Runtime's default order of the file has a peak of %s, %.1f %% above the best order's %s: set its execution order to that of the file for that one (without --order default)",
		units.Short(peak), 100*float64(peak-best)/float64(best), units.Short(best))
}

// List puts the nodes of a region and its bodies into the order in which the file lists
// them.
func (r *Region) List() {
	for _, b := range r.Bodies {
		b.R.List()
	}
	if r.listing != nil {
		r.G.Reorder(r.listing)
	}
}
