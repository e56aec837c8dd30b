package limits

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// Sliced describes a model in which regions run in slices, and that is planned.
type Sliced struct {
	*slicedModel
	plainPeak  int64 // of the best order without slices
	plainBound int64
	anyCount   plan.SliceBound // of the same regions in any number of slices
	anySlices  plan.SliceBound
	relaxed    plan.SliceBound // of any slices, with aliases
}

// WithAliases replaces the bounds, which are those of plans without aliases. In any number of
// slices, no more is known of regions than of all slices.
func (x *Sliced) WithAliases() { x.anyCount, x.anySlices = x.relaxed, x.relaxed }

// Calls reports whether calls have the nodes of slices.
func (x *Sliced) Calls() bool { return x.calls != nil }

// Unsliced summarises what the slices save and cost. l is nil without a limit.
func (x *Sliced) Unsliced(l *plan.Limited) *plan.Unsliced {
	u := &plan.Unsliced{
		UnslicedPeakBytes: x.plainPeak, UnslicedBoundBytes: x.plainBound, AnyCountBoundBytes: x.anyCount.Bytes, AnySlicesBoundBytes: x.anySlices.Bytes,
		SliceCostPercent: 100 * x.extra,
	}
	u.TotalCostPercent = u.SliceCostPercent
	if l != nil {
		u.TotalCostPercent = plan.Together(u.SliceCostPercent, l.ExtraCostPercent)
	}
	return u
}

// Describe describes the slices as the plan does, but for its mode. g is the graph that is planned.
func (x *Sliced) Describe(g *graph.Graph) *plan.Slices {
	from := x.from
	p := &plan.Slices{Constants: stillThere(g, from.constants), Regions: []plan.SlicedRegion{}, AnyCount: x.anyCount, AnySlices: x.anySlices, Copies: from.copies}
	for i, c := range x.regions() {
		r := c.Describe()
		if from.outer != nil && i >= len(from.outer.regions()) {
			r.Within = from.within(c)
		}
		if x.names != nil {
			r.Names = x.names[i]
		}
		p.Regions = append(p.Regions, r)
	}
	for _, w := range from.divided.Weights {
		p.Parts = append(p.Parts, plan.SlicedPart{Tensor: w.Tensor, Of: w.Of, Axis: w.Axis, From: w.Lo, Rows: w.Hi - w.Lo})
	}
	for _, w := range from.divided.Parts {
		p.Parts = append(p.Parts, plan.SlicedPart{Tensor: w.Tensor, Of: w.Of, Axis: w.Axis, From: w.Lo, Rows: w.Hi - w.Lo})
	}
	for _, w := range x.weights {
		p.Weights = append(p.Weights, plan.SlicedWeight{Tensor: w.Tensor, Of: w.Of, Axis: w.Axis, From: w.Lo})
	}
	return p
}

// stillThere lists those of the named initializers that a graph still has: regions may
// read one in parts alone.
func stillThere(g *graph.Graph, names []string) []string {
	there := map[string]bool{}
	for _, t := range g.Tensors {
		there[t.Name] = t.Data != nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !there[name] })
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
