package report_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// slicedPlan is a plan with slices, recomputation and swaps, and the cost of other limits.
func slicedPlan() *plan.Plan {
	percent := func(v float64) *float64 { return &v }
	return &plan.Plan{
		Summary: plan.Summary{
			NaiveBytes: 9 << 20, ProgramPeakBytes: 5 << 20, PeakBytes: 1 << 20, LowerBoundBytes: 1 << 20, ArenaBytes: 1 << 20, TotalBytes: 2 << 20, ScheduleOptimal: true,
			Limited: &plan.Limited{LimitBytes: 1 << 20, PlainPeakBytes: 2 << 20, ExtraCostPercent: 5, RecomputedNodes: 3, SwappedBuffers: 1, SwappedBytes: 1 << 20, HostLink: 1e9, WaitingPercent: 2},
			Unsliced: &plan.Unsliced{
				UnslicedPeakBytes: 4 << 20, UnslicedBoundBytes: 4 << 20, AnyCountBoundBytes: 768 << 10, AnySlicesBoundBytes: 512 << 10, SliceCostPercent: 2, TotalCostPercent: plan.Together(2, 5),
			},
		},
		Slices: &plan.Slices{Regions: []plan.SlicedRegion{{Count: 2, Exact: true}, {Count: 8}}},
		Frontier: []plan.FrontierPoint{
			{LimitBytes: 3 << 20, ExtraCostPercent: percent(1), Alone: &plan.FrontierAlone{Slices: percent(1), Recompute: percent(1.5), Swap: percent(3)}},
			{LimitBytes: 2 << 20, ExtraCostPercent: percent(2), Alone: &plan.FrontierAlone{Slices: percent(2)}},
			{LimitBytes: 1 << 20, ExtraCostPercent: percent(7.1), Alone: &plan.FrontierAlone{}},
			{LimitBytes: 1 << 19, Impossible: true},
		},
	}
}

// The summary says what slices, recomputation and waiting cost, each and together, and how
// low more slices could go.
func TestSummaryOfSlices(t *testing.T) {
	want := `every buffer apart   9.00 MiB (9,437,184 B)
peak, program order  5.00 MiB (5,242,880 B)
peak, planned order  1.00 MiB (1,048,576 B), 80.0 % less
lower bound          1.00 MiB (1,048,576 B): met, no order does better
arena                1.00 MiB (1,048,576 B), fragmentation 0.00 %
arena + resident     2.00 MiB (2,097,152 B)
slices               2 regions in 2 to 8 slices, 2.00 % more time by estimate; whole: peak 4.00 MiB, no order below 4.00 MiB; more slices of them: not below 768.00 KiB; any slices: not below 512.00 KiB; 1 region sums over slices
limit                1.00 MiB (1,048,576 B), 25.0 % of the peak without: 3 nodes run again, 1 tensors are swapped, 5.00 % more time by estimate
swapped              1.00 MiB (1,048,576 B) over 1 GB/s each way: steps wait 2.00 % of a step for it
extra time           slices 2.00 %, recomputation 3.00 %, waiting 2.00 %: together 7.10 % more by estimate
`
	var b bytes.Buffer
	report.Summary(&b, slicedPlan())
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// The frontier of a plan with slices has a column for each means.
func TestFrontierOfMeans(t *testing.T) {
	want := `limit                                of peak slices alone    run again      swapped all together
3.00 MiB (3,145,728 B)                75.0 %       1.00 %       1.50 %       3.00 %       1.00 %
2.00 MiB (2,097,152 B)                50.0 %       2.00 %   none found   none found       2.00 %
1.00 MiB (1,048,576 B)                25.0 %   none found   none found   none found       7.10 %
512.00 KiB (524,288 B)                12.5 %                                          impossible
`
	var b bytes.Buffer
	report.Frontier(&b, slicedPlan())
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
