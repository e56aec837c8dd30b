package box

import (
	"context"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/schedule"
)

// Search says how orders and placements are looked for, and with how much work.
type Search struct {
	Strategy  string // name of an order strategy; "": the order with the smallest peak
	Placement string // name of a placement strategy; "": the best placement
	Effort    schedule.Effort
	Goal      schedule.Goal
	Deadline  time.Time // when searches end; zero: never
	Solving   Solving

	Progress func(bound, peak int64) // of a search for an order; may be nil
}

// Solving is a solver that works on what searches leave open.
type Solving struct {
	Solver              ilp.Solver    // nil: none
	OrderTime, PackTime time.Duration // it may take
	Threads             int
}

// Context returns a context for searches, which also ends at the deadline.
func (x *Search) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, x.Deadline)
}

// TimeIsUp reports whether the deadline has passed.
func (x *Search) TimeIsUp() bool { return !x.Deadline.IsZero() && !time.Now().Before(x.Deadline) }

// Within solves a problem until the deadline. If the caller ends the search, it fails.
func (x *Search) Within(ctx context.Context, p *schedule.Problem, opt schedule.Options) (*schedule.Result, error) {
	search, end := x.Context(ctx)
	defer end()
	r, err := schedule.Solve(search, p, opt)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, err
}

// Orders returns the orders of a result that are worth placing.
func (x *Search) Orders(r *schedule.Result) [][]int32 {
	if x.Goal == schedule.GoalArea || r.Ended != nil {
		return r.Orders[:1]
	}
	return r.Orders
}

// Bound is a lower bound of a problem in bytes, for any order, and what proves it.
type Bound struct {
	Bytes  int64
	Proof  schedule.Certificate
	Orders [][]int32 // the best that were found with it
}

// Bound returns the largest bound of a problem that maximum flows prove, what proves it, and
// the best orders. If the deadline ends the search, that is what was found so far.
func (x *Search) Bound(ctx context.Context, p *schedule.Problem) (Bound, error) {
	r, err := x.Within(ctx, p, schedule.Options{Effort: x.Effort})
	if err != nil {
		return Bound{}, err
	}
	best := schedule.Certificate{Kind: schedule.KindSearch, Value: -1}
	for _, c := range r.Certificates {
		if c.Kind != schedule.KindSearch && c.Value > best.Value {
			best = c
		}
	}
	if best.Value < r.Bound {
		if c := schedule.Bound(p); c.Kind != schedule.KindSearch && c.Value > best.Value {
			best = c
		}
	}
	if best.Kind == schedule.KindSearch { // a graph without nodes
		return Bound{r.Bound, best, r.Orders}, nil
	}
	return Bound{best.Value, best, r.Orders}, nil
}

// Same reports whether two certificates differ in nothing but the value.
func Same(a, b schedule.Certificate) bool {
	return a.Kind == b.Kind && slices.Equal(a.Nodes, b.Nodes)
}

// ProvedBy returns the bound in bytes that the nodes of a certificate prove for a problem.
func ProvedBy(p *schedule.Problem, c schedule.Certificate) int64 {
	switch c.Kind {
	case schedule.KindCut:
		return schedule.CutBound(p, c.Nodes[0])
	case schedule.KindFirst:
		return schedule.FirstBound(p, c.Nodes)
	case schedule.KindLast:
		return schedule.LastBound(p, c.Nodes)
	}
	return 0
}
