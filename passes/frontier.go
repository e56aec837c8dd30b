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
	limits := frontierLimits(b.before.loads.Peak)
	points := []plan.FrontierPoint{}
	for i, p := range b.plans(ctx, limits) {
		x := plan.FrontierPoint{LimitBytes: limits[i], Impossible: p.Feasible == budget.Impossible}
		if !x.Impossible && b.host == nil {
			x.ExtraCostBound = &p.LowerBoundPercent
		}
		if p.Feasible == budget.Found {
			x.ExtraCostPercent = &p.ExtraPercent
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

// frontier returns the cost of each limit with all means, and with each means alone, from
// the largest limit below the peak of the best order without slices down to the first
// that is impossible.
func (w *weigher) frontier(ctx context.Context) ([]plan.FrontierPoint, error) {
	recompute, swap, err := w.alone()
	if err != nil {
		return nil, err
	}
	search, end := w.s.search().context(ctx)
	defer end()
	limits := frontierLimits(w.peak())
	alone := func(b *limitSearch) (list []*float64) {
		list = make([]*float64, len(limits))
		if b == nil {
			return list
		}
		for i, p := range b.plans(search, limits) {
			if p.Feasible == budget.Found {
				list[i] = &p.ExtraPercent
			}
		}
		return list
	}
	recomputed, swapped := alone(recompute), alone(swap)
	points := []plan.FrontierPoint{}
	for i, limit := range limits {
		x := plan.FrontierPoint{LimitBytes: limit, Impossible: limit < w.least.Bytes}
		if x.Impossible {
			points = append(points, x)
			break
		}
		found, err := w.at(ctx, limit)
		if err != nil {
			return nil, err
		}
		x.Alone = &plan.FrontierAlone{Recompute: recomputed[i], Swap: swapped[i]}
		m, err := w.slicesAlone(ctx, limit)
		if err != nil {
			return nil, err
		}
		if m != nil {
			percent := 100 * max(m.extra, 0)
			x.Alone.Slices = &percent
		}
		if found != nil {
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
			below := points[i+1].Alone
			*here = plan.FrontierAlone{Slices: least(here.Slices, below.Slices), Recompute: least(here.Recompute, below.Recompute), Swap: least(here.Swap, below.Swap)}
			points[i].ExtraCostPercent = least(points[i].ExtraCostPercent, points[i+1].ExtraCostPercent)
		}
		points[i].ExtraCostPercent = least(points[i].ExtraCostPercent, here.Slices, here.Recompute, here.Swap)
	}
	return points, nil
}

// alone returns the searches for plans without slices that only recompute, and that only
// swap; nil if that is not asked for.
func (w *weigher) alone() (recompute, swap *limitSearch, err error) {
	host := w.s.opt.Host
	if host == nil {
		if w.s.opt.NoRecompute {
			return nil, nil, nil
		}
		recompute, err = w.plain.searched()
		return recompute, nil, err
	}
	with := func(h *Host) (*limitSearch, error) { return w.s.newLimitSearch(w.plain.main, h, 0) }
	if !host.NoRecompute {
		if recompute, err = with(nil); err != nil {
			return nil, nil, err
		}
	}
	swap, err = with(&Host{Link: host.Link, NoRecompute: true})
	return recompute, swap, err
}
