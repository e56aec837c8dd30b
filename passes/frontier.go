package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// frontierStep is the distance of the frontier's limits in per cent of the best
// order's peak.
const frontierStep = 5

// frontier gives what limits cost, from the largest below the best order's peak to
// the first that is impossible. Of two limits the larger never costs more: a plan
// for the smaller one serves it, too.
func (b *budgeting) frontier(ctx context.Context) []plan.FrontierPoint {
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
