// Package pools searches for the plan of a main graph in several pools of memory that moves least in
// the slow ones. A search returns a graph with its places, and what was copied in it; it changes
// nothing but the graph that it was given.
package pools

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// May says what a search may do beside dividing the buffers among the pools.
type May struct {
	Move  bool // copy tensors between pools
	Apart bool // write no result over an input, where that moves less
}

// Plan is a plan of a main graph in several pools.
type Plan struct {
	*planner.Trial
	Moved   *Moved // nil: nothing is copied between pools
	problem *tiers.Problem
}

// Traffic is that of all pools but the first, in bytes.
func (p *Plan) Traffic() int64 { return p.Main.Tiered().SlowTrafficBytes }

// divided divides the buffers of a main graph, which is in its order, among the pools, and copies
// some between them where that lowers the slow traffic.
func divided(ctx context.Context, t *planner.Trial, x planner.Search, may May) (*Plan, error) {
	problem, err := t.Main.DividePools(ctx, &x)
	if err != nil {
		return nil, err
	}
	p := &Plan{t, nil, problem}
	if !may.Move || p.Traffic() == 0 {
		return p, nil
	}
	done, err := moved(ctx, t, problem, &x)
	if done != nil {
		now := *t
		now.Main = done.now
		p.Trial, p.Moved, p.problem = &now, done, done.problem
	}
	return p, err
}

// Best is the plan with less slow traffic of two: one in the order that a main graph is in, and one in
// which no result is written over an input, if there is some slow traffic. An order with the smallest
// peak is not the best one here, and a chain of results in one buffer lies in one pool as a whole.
func Best(ctx context.Context, t *planner.Trial, x planner.Search, may May) (*Plan, error) {
	best, err := divided(ctx, t, x, may)
	if err != nil || best.Traffic() == 0 || t.Main.NoInplace || !may.Apart {
		return best, err
	}
	m := *t.Model
	m.Graph = t.Main.G.Clone()
	m.Graph.Reorder(t.Main.StepOf) // as in the file
	rules, how := *t.Main.Rules, x.Silent()
	rules.NoInplace = true
	u, err := t.Bind.Trial(ctx, &m, &rules, how)
	if err != nil {
		return nil, err
	}
	if err := u.Main.Order(ctx, how); err != nil {
		return nil, err
	}
	apart, err := divided(ctx, u, x, may)
	var full *planner.FullError
	switch {
	case errors.As(err, &full):
		return best, nil
	case err != nil:
		return nil, err
	case apart.Traffic() < best.Traffic():
		return apart, nil
	}
	return best, nil
}
