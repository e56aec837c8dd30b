package box

import (
	"fmt"
	"slices"
)

// orderCandidates is how many orders are placed at several points: those with the least peaks.
const orderCandidates = 4

// Choose returns the order whose placement takes least at the point where it takes most, and that
// placement. place places an order whose peaks take what it is told. At several points, that is
// asked of a few orders alone: of those with the least peaks.
//
// Neither the area under the load curve nor the distance from program order predicts the arena.
func Choose[P any](g *Graph, x *Search, orders [][]int32, place func(order []int32, peaks Fit) (P, Fit, error)) (best []int32, placed P, err error) {
	list, err := g.candidates(orders)
	if err != nil {
		return nil, placed, err
	}
	var least Fit
	for _, c := range list {
		if best != nil && (x.TimeIsUp() || least.Worst <= c.peaks.Worst && least.Above == 0 || c.peaks.Above > 0 && list[0].peaks.Above == 0) {
			break
		}
		found, fit, err := place(c.order, c.peaks)
		if err != nil {
			return nil, placed, err
		}
		if best == nil || fit.Compare(least) < 0 {
			best, placed, least = c.order, found, fit
		}
	}
	return best, placed, nil
}

// candidate is an order, and what its peaks take.
type candidate struct {
	order []int32
	peaks Fit
}

// candidates sorts orders by their peaks, and leaves out those that are not worth placing.
func (g *Graph) candidates(orders [][]int32) (list []candidate, err error) {
	seen := map[string]bool{}
	for _, order := range orders {
		key := fmt.Sprint(order)
		if seen[key] {
			continue
		}
		seen[key] = true
		fit, err := g.fitOf(order)
		if err != nil {
			return nil, err
		}
		list = append(list, candidate{order, fit})
	}
	// Stable: program order is first, so that nothing moves if nothing is gained.
	slices.SortStableFunc(list, func(a, b candidate) int { return a.peaks.Compare(b.peaks) })
	if len(g.Points) > 1 {
		list = list[:min(len(list), orderCandidates)]
	}
	return list, nil
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
