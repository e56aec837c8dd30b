package passes

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// bound is a lower bound of a point, for any order, and what proves it.
type bound struct {
	bound  int64
	proof  schedule.Certificate
	orders [][]int32 // the best that were found with it
}

// solveBound returns the largest bound of a problem that maximum flows prove, what proves
// it, and the best orders. If the deadline ends the search, that is what was found so far.
func (x *search) solveBound(ctx context.Context, p *schedule.Problem) (bound, error) {
	r, err := x.within(ctx, p, schedule.Options{Effort: x.effort})
	if err != nil {
		return bound{}, err
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
		return bound{r.Bound, best, r.Orders}, nil
	}
	return bound{best.Value, best, r.Orders}, nil
}

// within solves a problem until the deadline. If the caller ends the search, it fails.
func (x *search) within(ctx context.Context, p *schedule.Problem, opt schedule.Options) (*schedule.Result, error) {
	search, end := x.context(ctx)
	defer end()
	r, err := schedule.Solve(search, p, opt)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r, err
}

// sameProof reports whether two certificates differ in nothing but the value.
func sameProof(a, b schedule.Certificate) bool {
	return a.Kind == b.Kind && slices.Equal(a.Nodes, b.Nodes)
}

// provedBy returns the bound that the nodes of a certificate prove for a problem.
func provedBy(p *schedule.Problem, c schedule.Certificate) int64 {
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
