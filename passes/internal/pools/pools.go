// Package pools searches for the plan of a main graph in several pools of memory that moves least in
// the slow ones. A search returns a graph with its places, and what was copied in it; it changes
// nothing but the graph that it was given.
package pools

import (
	"context"
	"errors"
	"math"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// May says what a search may do beside dividing the buffers among the pools.
type May struct {
	Move    bool // copy tensors between pools
	Apart   bool // write no result over an input, where that moves less
	Program bool // keep program order, where that moves less
}

// Plan is a plan of a main graph in several pools.
type Plan struct {
	*planner.Trial
	Moved   *Moved // nil: nothing is copied between pools
	problem *tiers.Problem
}

// Traffic is that of all pools but the first, in bytes.
func (p *Plan) Traffic() int64 { return p.Main.Tiered().SlowTrafficBytes }

// mostNodes is the largest number of nodes of a graph for which copies are chosen more than once, and
// of one that is also planned in program order.
const mostNodes = 200

// divided divides the buffers of a main graph, which is in its order, among the pools, and copies
// some between them where that lowers the slow traffic. The copies are chosen one after the other, so
// they may be worse for a larger pool: those for a part of the fastest one are weighed, too.
func divided(ctx context.Context, t *planner.Trial, x planner.Search, may May) (*Plan, error) {
	r := t.Main
	before := *r
	best, err := dividedIn(ctx, t, x, may, 0)
	if err != nil || !may.Move || len(r.G.Nodes) > mostNodes {
		return best, err
	}
	for _, room := range rooms(r.Pools[0].Capacity, r.Align, min(mostRooms, mostRooms*roomyNodes/max(1, len(r.G.Nodes)))) {
		if best.Traffic() == 0 || x.TimeIsUp() {
			break
		}
		u, main := *t, before
		u.Main = &main
		p, err := dividedIn(ctx, &u, x, may, room)
		var full *planner.FullError
		switch {
		case errors.As(err, &full):
		case err != nil:
			return nil, err
		case p.Traffic() < best.Traffic():
			best = p
		}
	}
	return best, nil
}

// mostRooms parts of a pool lie between it and its half; as many are tried. In a graph of more than
// roomyNodes nodes it is fewer, so that the work is about the same.
const (
	mostRooms  = 16
	roomyNodes = 64
)

// rooms lists that many parts of a pool, multiples of the alignment, from the largest on. Two pools of
// nearly the same capacity have nearly the same parts.
func rooms(capacity, align int64, perHalving int) (list []int64) {
	last := capacity / align
	for k := math.Floor(float64(perHalving) * math.Log2(float64(capacity))); k > 0 && len(list) < perHalving; k-- {
		room := int64(math.Exp2(k/float64(perHalving))) / align
		if room <= last/2 {
			break
		}
		if room < last {
			list = append(list, room*align)
			last = room
		}
	}
	return list
}

// dividedIn is divided with copies for that part of the fastest pool; 0: for all of it.
func dividedIn(ctx context.Context, t *planner.Trial, x planner.Search, may May, room int64) (*Plan, error) {
	problem, err := t.Main.DividePart(ctx, &x, room)
	if err != nil {
		return nil, err
	}
	p := &Plan{t, nil, problem}
	if !may.Move || p.Traffic() == 0 {
		return p, nil
	}
	done, err := moved(ctx, t, problem, &x, room)
	if done != nil {
		now := *t
		now.Main = done.now
		p.Trial, p.Moved, p.problem = &now, done, done.problem
	}
	return p, err
}

// Best is the plan with the least slow traffic of those in the order that a main graph is in and, if
// the graph is small, in program order: an order with the smallest peak is not the best one here.
func Best(ctx context.Context, t *planner.Trial, x planner.Search, may May) (*Plan, error) {
	best, err := inOrder(ctx, t, x, may)
	var full *planner.FullError
	if err != nil && !errors.As(err, &full) {
		return nil, err
	}
	if !may.Program || x.Fixed || x.Strategy != "" || len(t.Main.G.Nodes) > mostNodes || err == nil && best.Traffic() == 0 {
		return best, err
	}
	x.Strategy = "program"
	u, again := ordered(ctx, t, t.Main.Rules, x.Silent())
	if again != nil {
		return nil, again
	}
	program, again := inOrder(ctx, u, x, may)
	switch {
	case errors.As(again, &full):
		return best, err
	case again != nil:
		return nil, again
	case err != nil || program.Traffic() < best.Traffic():
		return program, nil
	}
	return best, nil
}

// inOrder is the plan with less slow traffic of two: one in the order that a main graph is in, and one
// in which no result is written over an input, if there is some slow traffic. A chain of results in one
// buffer lies in one pool as a whole.
func inOrder(ctx context.Context, t *planner.Trial, x planner.Search, may May) (*Plan, error) {
	best, err := divided(ctx, t, x, may)
	if err != nil || best.Traffic() == 0 || t.Main.NoInplace || !may.Apart {
		return best, err
	}
	rules, how := *t.Main.Rules, x.Silent()
	rules.NoInplace = true
	u, err := ordered(ctx, t, &rules, how)
	if err != nil {
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

// ordered orders the main graph of a trial again, by other rules or another strategy.
func ordered(ctx context.Context, t *planner.Trial, rules *planner.Rules, how *planner.Search) (*planner.Trial, error) {
	m := *t.Model
	m.Graph = t.Main.G.Clone()
	m.Graph.Reorder(t.Main.StepOf) // as in the file
	u, err := t.Bind.Trial(ctx, &m, rules, how)
	if err != nil {
		return nil, err
	}
	return u, u.Main.Order(ctx, how)
}
