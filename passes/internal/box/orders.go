package box

import (
	"context"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/schedule"
)

// placedPoints is the number of points whose best listing or placement is tried at all of them.
const placedPoints = 12

// Orders are those that are worth placing.
type Orders struct {
	Orders   [][]int32
	BestPeak int64 // with Graph.Listed: the smallest peak in bytes of any order at the corner

	listings map[string][]int32 // with it: the listing of each order
}

// Listing returns the nodes as the file lists them, with Graph.Listed and one of the orders; else
// nil.
func (o *Orders) Listing(order []int32) []int32 { return o.listings[fmt.Sprint(order)] }

// List lists the best orders of each point. Program order may be better than each of them at the
// others, so it is the first of several points, unless a strategy was asked for.
func (g *Graph) List(ctx context.Context, x *Search) (*Orders, error) {
	var orders [][]int32
	if g.Fixed || len(g.Points) > 1 && (x.Strategy == "" && x.Goal != schedule.GoalArea || x.Strategy == "program") {
		orders = append(orders, schedule.Program(g.Points[0].Problem))
	}
	if g.Fixed {
		return &Orders{Orders: orders}, nil
	}
	for _, p := range g.Points {
		if _, known := g.orders[p.Index]; !known {
			r, err := x.Within(ctx, p.Problem, g.options(x))
			if err != nil {
				return nil, err
			}
			g.orders[p.Index] = x.Orders(r)
		}
		orders = append(orders, g.orders[p.Index]...)
	}
	if g.solves(x) {
		if err := g.askSolver(ctx, x); err != nil {
			return nil, err
		}
		orders = append(orders, g.found...)
	}
	if g.Listed {
		return g.listings(ctx, x)
	}
	return &Orders{Orders: orders}, nil
}

// askSolver lets the solver work on the corner, which is the largest problem. It does so once: a
// longer grid changes only what may be shared there.
func (g *Graph) askSolver(ctx context.Context, x *Search) error {
	if g.asked {
		return nil
	}
	r, err := g.Solve(ctx, x)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	g.Solver, g.found, g.asked = r.Solver, x.Orders(r), true
	return nil
}

// Solve looks for the best orders at the corner, until the deadline, and asks the solver if there
// is one.
func (g *Graph) Solve(ctx context.Context, x *Search) (*schedule.Result, error) {
	search, end := x.Context(ctx)
	defer end()
	opt := g.options(x)
	if g.Main {
		opt.Progress = x.Progress
	}
	if g.solves(x) {
		opt.Solver, opt.SolverTime, opt.Threads = x.Solving.Solver, x.Solving.OrderTime, x.Solving.Threads
	}
	return schedule.Solve(search, g.Corner().Problem, opt)
}

// options are those of a search for the best orders at any point.
func (g *Graph) options(x *Search) schedule.Options {
	opt := schedule.Options{Strategy: x.Strategy, Effort: x.Effort, Goal: x.Goal, Precedence: g.Precedence}
	if g.Fixed {
		opt.Strategy = "program"
	}
	return opt
}

// solves reports whether the solver is asked for an order.
func (g *Graph) solves(x *Search) bool {
	return g.Main && x.Solving.Solver != nil && x.Strategy == "" && !g.Fixed && len(g.Precedence) == 0
}

// TurnedError reports that every order that a runtime takes by default runs some node before
// another one that must stay before it.
type TurnedError struct {
	Graph int        // its index in Graphs
	Turns [][2]int32 // of which the first node must stay before the second
	Order []int32    // one of those orders
}

func (e *TurnedError) Error() string {
	return "expected nodes that may change places, found a default order that turns them"
}

// listings lists the orders that the runtime's default traversal takes for some listings of
// the nodes: for each of a few points, the one that is best there.
func (g *Graph) listings(ctx context.Context, x *Search) (*Orders, error) {
	search, end := x.Context(ctx)
	defer end()
	l := &Orders{listings: map[string][]int32{}}
	var none error
	for k := len(g.Points) - 1; k >= 0; k -= max(1, len(g.Points)/placedPoints) {
		p := &g.Points[k]
		best, err := bestPeak(p.Problem, g.orders[p.Index])
		if err != nil {
			return nil, err
		}
		if k == len(g.Points)-1 {
			l.BestPeak = best
		}
		found := schedule.BestListing(search, p.Problem, g.orders[p.Index], best, x.Effort, g.Precedence)
		if found.Peak == math.MaxInt64 {
			none = &TurnedError{g.Index, g.Precedence, found.Order}
			continue
		}
		if key := fmt.Sprint(found.Order); l.listings[key] == nil {
			l.listings[key], l.Orders = found.Nodes, append(l.Orders, found.Order)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(l.Orders) == 0 {
		return nil, none
	}
	return l, nil
}

// bestPeak returns the smallest peak of some orders.
func bestPeak(p *schedule.Problem, orders [][]int32) (int64, error) {
	best := int64(math.MaxInt64)
	for _, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return 0, err
		}
		best = min(best, e.Peak)
	}
	return best, nil
}
