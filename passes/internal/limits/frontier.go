package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// frontierStep is the step between the limits of the frontier, in per cent of the
// peak without a limit.
const frontierStep = 5

// frontierLimits returns the limits of the frontier, descending, given the peaks of the best order and
// of the plan without a limit. If that is smaller, it is among them, and so are limits above it in steps
// of the best order's peak.
func frontierLimits(best, unlimited int64) (limits []int64) {
	steps := func(peak, above int64) {
		for percent := int64(100 - frontierStep); percent > 0; percent -= frontierStep {
			if limit := peak/100*percent + peak%100*percent/100; limit > above || above == 0 {
				limits = append(limits, limit)
			}
		}
	}
	if unlimited < best {
		steps(best, unlimited)
		limits = append(limits, unlimited)
	}
	steps(unlimited, 0)
	return limits
}

// frontier returns the cost of each limit, from the largest below the best
// order's peak down to the first that is impossible. A larger limit never costs
// more than a smaller one, since a plan for the smaller limit also meets the
// larger.
func (b *Search) frontier(ctx context.Context) []plan.FrontierPoint {
	if !b.changes() {
		none := 0.0
		return []plan.FrontierPoint{{LimitBytes: b.Before.Loads.Peak, ExtraCostPercent: &none, ExtraCostBound: &none}}
	}
	limits := frontierLimits(b.Before.Loads.Peak, b.unlimited())
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
		points[i].ExtraCostPercent = Least(points[i].ExtraCostPercent, points[i+1].ExtraCostPercent)
	}
	return points
}

// Least returns the least of several costs; nil is none.
func Least(costs ...*float64) (found *float64) {
	for _, c := range costs {
		if c != nil && (found == nil || *c < *found) {
			found = c
		}
	}
	return found
}
