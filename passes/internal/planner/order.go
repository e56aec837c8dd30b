package planner

import (
	"context"
	"reflect"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Order solves the bare problem of a region, then reorders the nodes and
// everything that refers to them by index.
func (r *Region) Order(ctx context.Context, x *Search) error {
	if c := r.stack(); c != nil {
		return r.orderStack(c)
	}
	p := r.Problem()
	if err := r.findOrders(ctx, p, x); err != nil {
		return err
	}
	return r.arrange(ctx, p, x)
}

// findOrders solves the bare problem p of a region.
func (r *Region) findOrders(ctx context.Context, p *schedule.Problem, x *Search) (err error) {
	if k := x.Known; k != nil && r.kind == mainGraph && reflect.DeepEqual(k.Problem, p) {
		r.Solved = k.Solved
		return nil
	}
	r.Solved, err = r.solve(ctx, p, x)
	return err
}

// arrange puts the nodes of a region into one of the orders that were found for its bare
// problem p.
func (r *Region) arrange(ctx context.Context, p *schedule.Problem, x *Search) error {
	g := r.onePoint(p, x)
	// A strategy, and a search that sees the nodes in another order, may find another order
	// than before, in which a body takes other memory than in what was planned with it.
	g.Fixed = g.Fixed || x.fixes(r.kind)
	if g.Listed {
		if err := x.Traversable(r.G); err != nil {
			return err
		}
	}
	l, err := g.List(ctx, &x.Search)
	if err != nil {
		return turned(err, r.G)
	}
	if err := r.choose(ctx, g, l.Orders, x); err != nil || !g.Listed {
		return err
	}
	x.Log.TimedOut = x.Log.TimedOut || x.TimeIsUp()
	order := l.Orders[0]
	r.listAs(order, l.Listing(order), l.BestPeak)
	return nil
}

// onePoint returns the bare problem p of a region as that of a box of one point, with what is known
// if it is solved.
func (r *Region) onePoint(p *schedule.Problem, x *Search) *box.Graph {
	g := &box.Graph{
		Main: r.kind == mainGraph, Fixed: r.inFunction || x.Fixed && r.kind == mainGraph,
		Precedence: x.precedence(r, p), Listed: x.Traversal != nil && !r.inFunction,
	}
	g.Set([]box.Point{{Problem: p}}, true)
	if r.Solved == nil {
		return g
	}
	orders := x.Orders(r.Solved)
	if x.PeakAlone && g.Main && !g.Listed {
		orders = orders[:1]
	}
	g.Know(r.Solved.Bound, orders)
	return g
}

// precedence pairs nodes of a region, with the bare problem p, of which the first must stay before
// the second.
func (x *Search) precedence(r *Region, p *schedule.Problem) (pairs [][2]int32) {
	fixed := x.fixes(r.kind)
	if x.KeepRandom && !fixed && !r.inFunction {
		pairs = EffectsInOrder(r.G, schedule.Program(p))
	}
	if r.kind == mainGraph {
		// With a fixed order, updates are already last; operands that were swapped
		// out come back right before their update.
		if x.UpdatesLast && !fixed {
			pairs = append(pairs, updatesLast(r.G)...)
		}
		pairs = append(pairs, x.Turns...)
	}
	return pairs
}

// solve solves the bare problem p of a region.
func (r *Region) solve(ctx context.Context, p *schedule.Problem, x *Search) (*schedule.Result, error) {
	solved, err := r.onePoint(p, x).Solve(ctx, &x.Search)
	if err != nil {
		return nil, err
	}
	x.Log.TimedOut = x.Log.TimedOut || solved.Ended != nil
	return solved, nil
}

// EffectsInOrder pairs each node that has an effect (see [graph.Effects]) with
// the next such node of an order.
func EffectsInOrder(g *graph.Graph, order []int32) (pairs [][2]int32) {
	effects, last := graph.Effects(g), int32(-1)
	for _, n := range order {
		if !effects[n] {
			continue
		}
		if last >= 0 {
			pairs = append(pairs, [2]int32{last, n})
		}
		last = n
	}
	return pairs
}

// choose puts the nodes of a region into the one of several orders that has the smallest arena,
// the first of those that do; g is the region's bare problem. If there is but one, it is not placed.
// The orders come sorted: program order first, if it is one of them, then by area.
func (r *Region) choose(ctx context.Context, g *box.Graph, orders [][]int32, x *Search) error {
	if len(orders) == 1 {
		return r.reorder(orders[0])
	}
	bound := g.Corner().Bound
	order, quick, err := box.Choose(g, &x.Search, orders, func(order []int32, _ box.Fit) (*quickPlacement, box.Fit, error) {
		if err := r.reorder(order); err != nil {
			return nil, box.Fit{}, err
		}
		taken, err := r.placeQuickly(ctx, x)
		return &quickPlacement{r.placed, r.Loads, taken}, box.Fit{Worst: box.Ratio(r.Arena, bound)}, err
	})
	if err != nil {
		return err
	}
	if err := r.reorder(order); err != nil {
		return err
	}
	r.quick = quick
	return nil
}
