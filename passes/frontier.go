package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// frontierStep is the step between the limits of the frontier, in per cent of the
// best order's peak.
const frontierStep = 5

// frontier returns the cost of each limit, from the largest below the best
// order's peak down to the first that is impossible. A larger limit never costs
// more than a smaller one, since a plan for the smaller limit also meets the
// larger.
func (b *limitSearch) frontier(ctx context.Context) []plan.FrontierPoint {
	peak := b.before.loads.Peak
	var limits []int64
	for percent := int64(100 - frontierStep); percent > 0; percent -= frontierStep {
		limits = append(limits, peak/100*percent+peak%100*percent/100)
	}
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
		here, below := &points[i], points[i+1].ExtraCostPercent
		if below != nil && (here.ExtraCostPercent == nil || *below < *here.ExtraCostPercent) {
			here.ExtraCostPercent = below
		}
	}
	return points
}
