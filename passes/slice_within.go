package passes

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// Regions inside of slices. What one slice makes may still be too large where its axis has
// no more rows: one image of a batch. So some models with slices are searched once more,
// for regions of the nodes of one slice: a second axis is cut there alone where it is
// needed. The second search is that of [slicing.Search.Cover], on the graph with slices, in
// which each slice is ordinary nodes; it differs in that a region has nodes of one slice.

// mostWithinNodes is the largest number of nodes, about, of a model whose slices are searched.
const mostWithinNodes = 3000

// newWithin returns a slicer whose regions lie inside of the slices of a model.
func (x *slicer) newWithin(ctx context.Context, outer *slicedModel) (*slicer, error) {
	plain := *outer // without calls
	plain.calls, plain.names = nil, nil
	b, err := x.ordered(ctx, &plain)
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
	for _, t := range x.base.model.Graph.Tensors {
		in.given[t.Name] = true
	}
	in.search = slicing.NewSearch(in.program(), windowReach)
	return in, nil
}

// outermost returns the model without what runs in slices inside of slices.
func (m *slicedModel) outermost() *slicedModel {
	for m.from.outer != nil {
		m = m.from.outer
	}
	return m
}

// regions returns the regions in the order of their numbers.
func (m *slicedModel) regions() []*slicing.Choice {
	if m.from.outer == nil {
		return m.choices
	}
	return slices.Concat(m.from.outer.regions(), m.choices)
}

// within says in which slice of the base a region lies, and what its tensors are.
func (x *slicer) within(c *slicing.Choice) *plan.SlicedWithin {
	g := x.base.model.Graph
	tag, _ := slicing.TagOf(g.Nodes[c.Nodes[0]])
	w, seen := &plan.SlicedWithin{Region: tag.Region, Slice: tag.Slice, Tensors: []plan.SlicedPart{}}, map[graph.TensorID]bool{}
	for _, v := range c.Nodes {
		for _, list := range [][]graph.TensorID{g.Nodes[v].Inputs, g.Nodes[v].Outputs} {
			for _, t := range list {
				if t < 0 || seen[t] {
					continue
				}
				seen[t] = true
				if p, rows := x.rows[g.Tensors[t].Name]; rows {
					w.Tensors = append(w.Tensors, plan.SlicedPart{Tensor: p.Tensor, Of: p.Of, Axis: p.Axis, From: p.Lo, Rows: p.Hi - p.Lo})
				}
			}
		}
	}
	return w
}

// inside returns ladders for regions inside of the slices of a few models: the bases.
func (w *weigher) inside(ctx context.Context) ([]*ladder, error) {
	if w.inner != nil {
		return w.inner, nil
	}
	w.inner = []*ladder{}
	list, err := w.outers(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		x, err := m.from.newWithin(ctx, m)
		if err != nil {
			return nil, err
		}
		for _, slack := range withinSlacks {
			w.inner = append(w.inner, &ladder{x: x, slackness: slack})
		}
	}
	return w.inner, nil
}

// outerCosts are the shares of the time that the slices may take inside of which others are
// looked for.
var outerCosts = []float64{0.01, 0.02, 0.05, 0.25}

// withinSlacks are those of the ladders for regions inside of slices.
var withinSlacks = []slackness{{slack: 1}, {slack: 1.25}, {slack: 1.75}}

// outers returns the models inside of whose slices regions are looked for: for each cost,
// the one with the smallest peak, and of these the cheapest.
func (w *weigher) outers(ctx context.Context) (list []*slicedModel, err error) {
	for _, cost := range outerCosts {
		var best *slicedModel
		for _, l := range w.ladders {
			rung := l.last(ctx, cost, func(r *cover) bool {
				nodes := len(l.x.base.main.g.Nodes)
				for _, c := range r.choices {
					nodes += (c.Slices - 1) * len(c.Nodes)
				}
				return nodes <= mostWithinNodes
			})
			if rung < 0 {
				continue
			}
			m, err := l.x.model(ctx, l.at(ctx, rung))
			if err != nil {
				return nil, err
			}
			if m != nil && (best == nil || m.peak < best.peak || m.peak == best.peak && m.extra < best.extra) {
				best = m
			}
		}
		if best != nil && best.peak < w.peak() && !slices.Contains(list, best) {
			list = append(list, best)
		}
	}
	return list, nil
}
