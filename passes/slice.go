package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// SliceModes are the names of the values of Slices.
var SliceModes = map[string]Slices{"off": SlicesOff, "exact": SlicesExact, "any": SlicesAny}

// slice runs regions of the graph in slices, so that the cheapest plan below the limit
// (Options.Limit) can be found or, without a limit, the smallest peak that the extra
// time allows (Options.ExtraPercent). It weighs slices against recomputation and swaps,
// which the pass limit adds. It also computes the frontier, if that is asked for. With
// several pools and without a limit, it looks for little traffic in the slow ones.
func slice(ctx context.Context, s *State) error {
	for _, n := range s.now.Model.Graph.Nodes {
		if _, sliced := n.Prop(slicing.Prop); sliced { // of a plan of which the model is the result
			n.DropProp(slicing.Prop)
		}
	}
	search := limits.Slices
	switch {
	case s.opt.Slices == SlicesOff || s.opt.Limit == nil && s.opt.ExtraPercent <= 0 && !s.opt.Frontier && len(s.opt.Pools) == 0:
		return nil
	case len(s.opt.Pools) > 0 && s.opt.Limit == nil && !s.opt.Frontier:
		search = limits.SlicesForPools
	}
	found, err := search(ctx, s.task())
	if err != nil {
		return err
	}
	s.less.Choice, s.less.known, s.less.fixed, s.costs.Measured, s.less.frontier, s.less.slices = found.Choice, found.Known, found.Fixed, found.Measured, found.Frontier, found.Slices
	if found.Model != nil {
		s.Replace(found.Model)
	}
	return nil
}

// planSlices describes the slices in the plan.
func (s *State) planSlices(p *plan.Plan) {
	if s.less.slices == nil {
		return
	}
	p.Slices = s.less.slices.Describe(s.now.Model.Graph)
	if p.Slices.Mode = "exact"; s.opt.Slices == SlicesAny {
		p.Slices.Mode = "any"
	}
}
