package box

import (
	"context"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/schedule"
)

const (
	orderCandidates = 4  // orders with the least worst peak for which stackings are tried
	placedPoints    = 12 // points of the grid whose best placement gives a stacking
)

// orderList is the orders that are worth placing.
type orderList struct {
	orders   [][]int32
	listings map[string][]int32 // with Graph.Listed: the listing of an order
	bestPeak int64              // with it: the smallest peak in bytes of any order at the corner
}

// list lists program order, and the best orders of each point.
func (g *Graph) list(ctx context.Context, x *Search) (*orderList, error) {
	var orders [][]int32
	if g.Fixed || x.Strategy == "" || x.Strategy == "program" {
		orders = append(orders, schedule.Program(g.Points[0].Problem))
	}
	if g.Fixed {
		return &orderList{orders: orders}, nil
	}
	for _, p := range g.Points {
		if _, known := g.orders[p.Index]; !known {
			r, err := x.Within(ctx, p.Problem, schedule.Options{Strategy: x.Strategy, Effort: x.Effort, Precedence: g.Precedence})
			if err != nil {
				return nil, err
			}
			g.orders[p.Index] = r.Orders
		}
		orders = append(orders, g.orders[p.Index]...)
	}
	if g.AskSolver && x.Solving.Solver != nil && x.Strategy == "" && len(g.Precedence) == 0 {
		if err := g.askSolver(ctx, x); err != nil {
			return nil, err
		}
		orders = append(orders, g.found...)
	}
	if g.Listed {
		return g.listings(ctx, x)
	}
	return &orderList{orders: orders}, nil
}

// askSolver lets the solver work on the corner, which is the largest problem. It does so once: a
// longer grid changes only what may be shared there.
func (g *Graph) askSolver(ctx context.Context, x *Search) error {
	if g.Solver != nil {
		return nil
	}
	s := &x.Solving
	r, err := x.Within(ctx, g.Corner().Problem, schedule.Options{Effort: x.Effort, Solver: s.Solver, SolverTime: s.OrderTime, Threads: s.Threads})
	if err != nil {
		return err
	}
	g.Solver, g.found = r.Solver, r.Orders
	return nil
}

// TurnedError reports that every order that a runtime takes by default runs some node before
// another one that must stay before it.
type TurnedError struct {
	Order []int32 // one of them
}

func (e *TurnedError) Error() string {
	return "expected nodes that may change places, found a default order that turns them"
}

// listings lists the orders that the runtime's default traversal takes for some listings of
// the nodes: for each of a few points, the one that is best there.
func (g *Graph) listings(ctx context.Context, x *Search) (*orderList, error) {
	search, end := x.Context(ctx)
	defer end()
	l := &orderList{listings: map[string][]int32{}}
	var none error
	for k := len(g.Points) - 1; k >= 0; k -= max(1, len(g.Points)/placedPoints) {
		p := &g.Points[k]
		best, err := bestPeak(p.Problem, g.orders[p.Index])
		if err != nil {
			return nil, err
		}
		if k == len(g.Points)-1 {
			l.bestPeak = best
		}
		found := schedule.BestListing(search, p.Problem, g.orders[p.Index], best, x.Effort, g.Precedence)
		if found.Peak == math.MaxInt64 {
			none = &TurnedError{found.Order}
			continue
		}
		if key := fmt.Sprint(found.Order); l.listings[key] == nil {
			l.listings[key], l.orders = found.Nodes, append(l.orders, found.Order)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(l.orders) == 0 {
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
