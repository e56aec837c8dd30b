package passes

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// pooled is a plan of a main graph in several pools.
type pooled struct {
	model     *graph.Model
	inference *ops.Inference
	main      *planner.Region
	moved     *movedGraph // nil: nothing is copied between pools
	problem   *tiers.Problem
}

// traffic is that of all pools but the first, in bytes.
func (p *pooled) traffic() int64 { return p.main.Tiered().SlowTrafficBytes }

// inPools divides the buffers of a main graph, which is in its order, among the pools, and copies
// some between them where that lowers the slow traffic.
func (s *State) inPools(ctx context.Context, model *graph.Model, inference *ops.Inference, r *planner.Region) (*pooled, error) {
	problem, err := r.DividePools(ctx, s.search())
	if err != nil {
		return nil, err
	}
	p := &pooled{model, inference, r, nil, problem}
	if s.opt.Runtime != "" { // it does not know the nodes that copy
		return p, nil
	}
	if s.opt.noMoves || s.budget != nil || s.ranged != nil || p.traffic() == 0 {
		return p, nil
	}
	done, err := moved(ctx, r, model, inference.Given, problem, s.search())
	if done != nil {
		p.main, p.moved, p.problem = done.now, done, done.problem
	}
	return p, err
}

// bestInPools is the plan with less slow traffic of two: that of [State.inPools], and one in which
// no result is written over an input, if there is some slow traffic. An order with the smallest peak
// is not the best one here, and a chain of results in one buffer lies in one pool as a whole.
func (s *State) bestInPools(ctx context.Context, model *graph.Model, inference *ops.Inference, r *planner.Region) (*pooled, error) {
	best, err := s.inPools(ctx, model, inference, r)
	if err != nil || best.traffic() == 0 || r.NoInplace || s.opt.Runtime != "" || s.opt.Workspaces != nil || s.budget != nil || s.ranged != nil {
		return best, err
	}
	m := *model
	m.Graph = r.G.Clone()
	m.Graph.Reorder(r.StepOf) // as in the file
	x, how := *r.Rules, s.search().Silent()
	x.NoInplace = true
	t, err := s.bind.Trial(ctx, &m, &x, how)
	if err != nil {
		return nil, err
	}
	if err := t.Main.Order(ctx, how); err != nil {
		return nil, err
	}
	apart, err := s.inPools(ctx, t.Model, t.Inference, t.Main)
	var full *planner.FullError
	switch {
	case errors.As(err, &full):
		return best, nil
	case err != nil:
		return nil, err
	case apart.traffic() < best.traffic():
		return apart, nil
	}
	return best, nil
}
