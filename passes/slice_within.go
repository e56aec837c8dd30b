package passes

import (
	"cmp"
	"context"
	"math"
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
	g := x.base.Model.Graph
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
	var known *slicer
	for _, m := range list {
		x, err := m.from.newWithin(ctx, m, nil, known)
		if err != nil {
			return nil, err
		}
		known = x
		bound := m.from.least(m.choices)
		for _, slack := range withinSlacks {
			w.inner = append(w.inner, newInner(x, slack, bound))
		}
		w.inner[len(w.inner)-1].bound = max(bound, 1)
	}
	return w.inner, nil
}

// newInner returns a ladder of a slicer whose regions lie inside of slices. Its last target
// is that at which a peak of the bound, which is for any number of the slices around them,
// would be too large.
func newInner(x *slicer, slack slackness, bound int64) *ladder {
	falls := math.Log2(float64(x.base.Main.Loads.Peak) * slack.slack / float64(max(bound, 1)))
	return &ladder{x: x, slackness: slack, rungs: min(int(math.Ceil(falls*rungsPerHalving)), rungs)}
}

// againLeast is the share of the peak by which estimates must be too large for a search in
// another order, which takes as long as the first one.
const againLeast = 0.1

// againMost is the share of the time that the lowest target of a ladder may cost for such a
// search: a ladder that ends at little cost ends by its estimates.
const againMost = 0.1

// again returns a ladder for regions inside of the slices of a model that run in another
// order: that of the model with the lowest target of a ladder. It returns nil for other
// ladders, and if the estimates for that model are not much larger than its peak.
//
// An order for slices without regions inside need not be good for these. It may take the rows
// of an input for all slices at once, so that the input is there twice, where the slices need
// more than that. Then no region inside of the first slice is estimated below it. MobileNet
// v2 at batch 8 ends at 8.24 MiB so, and at 7.97 in the other order.
func (w *weigher) again(ctx context.Context, l *ladder) (*ladder, error) {
	if l.bound == 0 || l.asked {
		return l.second, nil
	}
	l.asked = true
	outer := l.x.outer
	rung := l.last(ctx, math.Inf(1), func(*cover) bool { return true })
	if rung < 0 || l.at(ctx, rung).extra > againMost {
		return nil, nil
	}
	m, err := l.x.model(ctx, l.at(ctx, rung))
	if err != nil || m == nil || m.peak >= outer.peak {
		return nil, err
	}
	estimate := int64(0)
	for _, c := range m.choices {
		estimate = max(estimate, c.Peak)
	}
	if float64(estimate) < (1+againLeast)*float64(m.peak) {
		return nil, nil
	}
	t, err := l.x.ordered(ctx, m)
	if err != nil {
		return nil, err
	}
	x, err := outer.from.newWithin(ctx, outer, t.Main.G, l.x)
	if err != nil {
		return nil, err
	}
	l.second = newInner(x, l.slackness, l.bound)
	return l.second, nil
}

// outerCosts are the shares of the time that the slices may take inside of which others are
// looked for.
var outerCosts = []float64{0.01, 0.02, 0.05, 0.25}

// withinSlacks are those of the ladders for regions inside of slices.
var withinSlacks = []slackness{{slack: 1}, {slack: 1.25}}

// leastGain is the part of its peak by which another model may be larger and have nearly the
// same one.
const leastGain = 1.0 / 128

// outers returns the models inside of whose slices regions are looked for: for each cost,
// the most promising one. If cheaper slices have nearly its peak, and no higher a bound for
// any number of slices, these are taken: what they save is left for the regions inside.
func (w *weigher) outers(ctx context.Context) (list []*slicedModel, err error) {
	for _, cost := range outerCosts {
		var found []*slicedModel
		for _, l := range w.ladders {
			rung := l.last(ctx, cost, func(r *cover) bool { return l.x.size(r.choices) <= mostWithinNodes })
			if rung < 0 {
				continue
			}
			m, err := l.x.model(ctx, l.at(ctx, rung))
			if err != nil {
				return nil, err
			}
			if m != nil && m.peak < w.peak() {
				found = append(found, m)
			}
		}
		if len(found) == 0 {
			continue
		}
		best := promising(found)
		cheaper, err := w.cheapest(ctx, w.ladders, best.peak+int64(float64(best.peak)*leastGain), best)
		if err != nil {
			return nil, err
		}
		if cheaper != best && cheaper.from.size(cheaper.choices) <= mostWithinNodes && cheaper.from.least(cheaper.choices) <= best.from.least(best.choices) {
			best = cheaper
		}
		if !slices.Contains(list, best) {
			list = append(list, best)
		}
	}
	return list, nil
}

// promising returns the cheapest of the models with the smallest peak. Of two with one peak
// and nearly one cost, it takes that whose lower bound for any number of slices is lower:
// regions inside of its slices can reach further. ResNet-50 at batch 8 has 10.9 MiB in slices
// for 1.2 and for 1.5 % of the time; regions inside reach 9.76 and 8.64 MiB. A model that
// costs more leaves less time for the regions inside: MobileNet v2 at batch 8 has 9.76 MiB
// for 2.3 and for 3.8 %, and they reach 7.97 and 8.18 MiB in 6 %.
func promising(models []*slicedModel) *slicedModel {
	cheapest := slices.MinFunc(models, func(a, b *slicedModel) int {
		return cmp.Or(cmp.Compare(a.peak, b.peak), cmp.Compare(a.extra, b.extra))
	})
	best, bound := cheapest, cheapest.from.least(cheapest.choices)
	for _, m := range models {
		if m == best || m.peak > cheapest.peak || m.extra > cheapest.extra+nextToNothing {
			continue
		}
		if b := m.from.least(m.choices); b < bound {
			best, bound = m, b
		}
	}
	return best
}

// size returns the number of nodes, about, of the model with regions in slices.
func (x *slicer) size(choices []*slicing.Choice) int {
	nodes := len(x.base.Main.G.Nodes)
	for _, c := range choices {
		nodes += (c.Slices - 1) * len(c.Nodes)
	}
	return nodes
}
