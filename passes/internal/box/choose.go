package box

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Fit says how much an order, or its placement, takes.
type Fit struct {
	Above int64   // bytes of the corner above a limit
	Worst float64 // bytes / lower bound, at the point where it is largest
}

// Compare orders fits, the best first.
func (f Fit) Compare(g Fit) int {
	return cmp.Or(cmp.Compare(f.Above, g.Above), cmp.Compare(f.Worst, g.Worst))
}

// choose sets the order and the stacking whose arena is closest to the bound at the point where
// it is farthest from it. The candidates are the best orders of each point and program order,
// then the best placements of a few points.
func (g *Graph) choose(ctx context.Context, x *Search) error {
	l, err := g.list(ctx, x)
	if err != nil {
		return err
	}
	type candidate struct {
		order []int32
		fit   Fit
	}
	var list []candidate
	seen := map[string]bool{}
	for _, order := range l.orders {
		key := fmt.Sprint(order)
		if seen[key] {
			continue
		}
		seen[key] = true
		fit, err := g.fitOf(order)
		if err != nil {
			return err
		}
		list = append(list, candidate{order, fit})
	}
	// Stable: program order is first, so that nothing moves if nothing is gained.
	slices.SortStableFunc(list, func(a, b candidate) int { return a.fit.Compare(b.fit) })
	var best *Stack
	for _, c := range list[:min(len(list), orderCandidates)] {
		if best != nil && (x.TimeIsUp() || best.fit.Worst <= c.fit.Worst && best.fit.Above == 0 || c.fit.Above > 0 && list[0].fit.Above == 0) {
			break
		}
		found, err := g.stackOrder(ctx, x, c.order, c.fit.Worst)
		if err != nil {
			return err
		}
		if best == nil || found.fit.Compare(best.fit) < 0 {
			best = found
		}
	}
	best.Listing, best.BestPeak = l.listings[fmt.Sprint(best.Order)], l.bestPeak
	g.Chosen = best
	return nil
}

// fitOf returns what the peaks of an order take.
func (g *Graph) fitOf(order []int32) (f Fit, err error) {
	for _, p := range g.Points {
		e, err := p.Problem.Evaluate(order)
		if err != nil {
			return f, err
		}
		f.Worst, f.Above = max(f.Worst, Ratio(e.Peak, p.Bound)), g.above(e.Peak)
	}
	return f, nil
}

// above returns the bytes of the corner's peak above the limit.
func (g *Graph) above(peak int64) int64 {
	if g.Keep == nil {
		return 0
	}
	return max(0, peak-g.Keep.Bytes)
}
