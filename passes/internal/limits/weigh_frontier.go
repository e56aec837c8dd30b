package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
)

// frontier returns the cost of each limit with all means, and with each of them alone, from
// the largest limit below the peak of the best order without slices down to the first
// that is impossible.
func (w *weigher) frontier(ctx context.Context) ([]plan.FrontierPoint, error) {
	search, end := w.s.search().Context(ctx)
	defer end()
	limits := frontierLimits(w.peak(), w.unlimited())
	alone := make([]plan.FrontierAlone, len(limits))
	for _, m := range w.means {
		if m.cost == nil {
			continue
		}
		costs, err := m.cost(w, search, limits)
		if err != nil {
			return nil, err
		}
		for i := range limits {
			*m.field(&alone[i]) = costs[i]
		}
	}
	points := []plan.FrontierPoint{}
	for i, limit := range limits {
		x := plan.FrontierPoint{LimitBytes: limit}
		var err error
		if x.Impossible, err = w.impossible(ctx, limit); err != nil {
			return nil, err
		}
		if x.Impossible {
			points = append(points, x)
			break
		}
		found, err := w.at(ctx, limit)
		if err != nil {
			return nil, err
		}
		if x.Alone = &alone[i]; found != nil {
			percent := 100 * max(found.extra, 0)
			x.ExtraCostPercent = &percent
		}
		points = append(points, x)
	}
	for i := len(points) - 1; i >= 0; i-- {
		here := points[i].Alone
		if here == nil {
			continue
		}
		if i+1 < len(points) && points[i+1].Alone != nil {
			points[i].ExtraCostPercent = Least(points[i].ExtraCostPercent, points[i+1].ExtraCostPercent)
		}
		for _, m := range w.means {
			if m.cost == nil {
				continue
			}
			cost := m.field(here)
			if i+1 < len(points) && points[i+1].Alone != nil {
				*cost = Least(*cost, *m.field(points[i+1].Alone))
			}
			points[i].ExtraCostPercent = Least(points[i].ExtraCostPercent, *cost)
		}
	}
	return points, nil
}
