package limits

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// Regions inside of slices. What one slice makes may still be too large where its axis has
// no more rows: one image of a batch. So some models with slices are searched once more,
// for regions of the nodes of one slice: a second axis is cut there alone where it is
// needed. The second search is that of [slicing.Search.Cover], on the graph with slices, in
// which each slice is ordinary nodes; it differs in that a region has nodes of one slice.

// mostWithinNodes is the largest number of nodes, about, of a model whose slices are searched.
const mostWithinNodes = 3000

// newWithin returns a slicer whose regions lie inside of the slices of a model. If like is
// not nil, it is the graph of such a model with regions inside, and the slices run in its
// order.
func (x *slicer) newWithin(ctx context.Context, outer *slicedModel, like *graph.Graph, known *slicer) (*slicer, error) {
	plain := *outer // without calls
	plain.calls, plain.names = nil, nil
	model, err := x.rewrite(&plain)
	if err != nil {
		return nil, err
	}
	quick := x.s.search().Quick()
	if like != nil {
		follow(model.Graph, like, len(outer.regions()))
		quick.Strategy = "program"
	}
	b, err := x.s.inOrder(ctx, model, quick)
	if err != nil {
		return nil, err
	}
	in := &slicer{
		s: x.s, base: b, constants: x.constants, copies: x.copies, divided: x.divided, time: x.time,
		models: map[string]*slicedModel{}, outer: &plain, rows: map[string]slicing.Part{}, given: map[string]bool{},
	}
	for _, p := range plain.rows {
		in.rows[p.Tensor] = p
	}
	for _, t := range x.base.Model.Graph.Tensors {
		in.given[t.Name] = true
	}
	p := in.program()
	if known != nil {
		p.Share(known.search.Program)
	}
	in.search = slicing.NewSearch(p, windowReach)
	return in, nil
}

// follow puts the nodes of a graph in the order of another one, in which regions from the
// first on run in slices: each node stands where its last copy runs.
func follow(g, like *graph.Graph, first int) {
	made, copied := map[string]int{}, map[string]int{}
	for i, n := range like.Nodes {
		if tag, sliced := slicing.TagOf(n); sliced && tag.Region >= first {
			if tag.Copy() {
				copied[tag.Tensor] = i
			}
			continue
		}
		for _, t := range n.Outputs {
			if t >= 0 {
				made[like.Tensors[t].Name] = i
			}
		}
	}
	at, step := map[*graph.Node]int{}, 0
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			i, known := copied[g.Tensors[t].Name]
			if !known {
				i, known = made[g.Tensors[t].Name]
			}
			if known {
				step = i
				break
			}
		}
		at[n] = step
	}
	slices.SortStableFunc(g.Nodes, func(a, b *graph.Node) int { return at[a] - at[b] })
	g.Link()
}
