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
	s.takeSlices(found)
	return nil
}

// takeSlices takes what a search for slices has chosen.
func (s *State) takeSlices(found *limits.Chosen) {
	s.less.Choice, s.less.known, s.less.fixed, s.costs.Measured, s.less.frontier, s.less.slices = found.Choice, found.Known, found.Fixed, found.Measured, found.Frontier, found.Slices
	if found.Model != nil {
		s.Replace(found.Model)
	}
}

// lossInRows runs the loss of a training step in slices, unless other regions were looked for: what
// a step needs without a limit, and what it is planned from below one, is then less. Pools, ranges
// and a runtime have the graph as it is.
func lossInRows(ctx context.Context, s *State) error {
	o := &s.opt
	if o.Slices != SlicesOff || len(o.Pools) > 0 || s.now.Ranged != nil || o.Runtime != "" || o.Schedule != "" || o.Workspaces != nil && o.Workspaces.OfAnyModel || s.how.Strategy != "" {
		return nil
	}
	found, err := limits.LossInRows(ctx, s.task())
	if err != nil {
		return err
	}
	s.takeSlices(found)
	return nil
}

// planSlices describes the slices in the plan.
func (s *State) planSlices(p *plan.Plan) {
	if s.less.slices == nil {
		return
	}
	p.Slices = s.less.slices.Describe(s.now.Model.Graph)
	switch p.Slices.Mode = "exact"; s.opt.Slices {
	case SlicesAny:
		p.Slices.Mode = "any"
	case SlicesOff:
		p.Slices.Mode = plan.SlicesOfLoss
	}
}
