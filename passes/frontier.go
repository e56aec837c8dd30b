package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// frontierStep is the step between the limits of the frontier, in per cent of the
// best order's peak.
const frontierStep = 5

// frontierLimits returns the limits of the frontier, given the best order's peak.
func frontierLimits(peak int64) (limits []int64) {
	for percent := int64(100 - frontierStep); percent > 0; percent -= frontierStep {
		limits = append(limits, peak/100*percent+peak%100*percent/100)
	}
	return limits
}

// frontier returns the cost of each limit, from the largest below the best
// order's peak down to the first that is impossible. A larger limit never costs
// more than a smaller one, since a plan for the smaller limit also meets the
// larger.
func (b *limitSearch) frontier(ctx context.Context) []plan.FrontierPoint {
	if !b.changes() {
		none := 0.0
		return []plan.FrontierPoint{{LimitBytes: b.Before.Loads.Peak, ExtraCostPercent: &none, ExtraCostBound: &none}}
	}
	limits := frontierLimits(b.Before.Loads.Peak)
	points := []plan.FrontierPoint{}
	for i, p := range b.plans(ctx, limits) {
		x := plan.FrontierPoint{LimitBytes: limits[i], Impossible: p.Feasible == budget.Impossible}
		if b.relaxed != nil { // with aliases, less may be possible, and cost less, than the search proves
			x.Impossible = b.relaxed.obstacle(ctx, limits[i]) != nil
		} else if !x.Impossible && b.host == nil {
			x.ExtraCostBound = &p.LowerBoundPercent
		}
		if p.Feasible == budget.Found {
			x.ExtraCostPercent = &p.ExtraPercent
		}
		if b.meets(&Limit{Bytes: limits[i]}) {
			x.ExtraCostPercent = new(float64)
		}
		if points = append(points, x); x.Impossible {
			break
		}
	}
	for i := len(points) - 2; i >= 0; i-- {
		points[i].ExtraCostPercent = least(points[i].ExtraCostPercent, points[i+1].ExtraCostPercent)
	}
	return points
}

// least returns the least of several costs; nil is none.
func least(costs ...*float64) (found *float64) {
	for _, c := range costs {
		if c != nil && (found == nil || *c < *found) {
			found = c
		}
	}
	return found
}

// frontier returns the cost of each limit with all means, and with each of them alone, from
// the largest limit below the peak of the best order without slices down to the first
// that is impossible.
func (w *weigher) frontier(ctx context.Context) ([]plan.FrontierPoint, error) {
	search, end := w.s.search().Context(ctx)
	defer end()
	limits := frontierLimits(w.peak())
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
			points[i].ExtraCostPercent = least(points[i].ExtraCostPercent, points[i+1].ExtraCostPercent)
		}
		for _, m := range w.means {
			if m.cost == nil {
				continue
			}
			cost := m.field(here)
			if i+1 < len(points) && points[i+1].Alone != nil {
				*cost = least(*cost, *m.field(points[i+1].Alone))
			}
			points[i].ExtraCostPercent = least(points[i].ExtraCostPercent, *cost)
		}
	}
	return points, nil
}
