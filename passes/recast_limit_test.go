package passes_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestRecastBelowLimits: a plan without a limit in which casts run again is one for a limit of its peak,
// too, at no more time. Limits in per cent are of that peak, and the frontier has it, in its order.
func TestRecastBelowLimits(t *testing.T) {
	tried := 0
	for seed := range uint64(120) {
		solve := func(o passes.Options) *plan.Plan {
			o.Fold, o.Aliases = passes.FoldOff, passes.AliasesOff
			r, err := passes.Optimize(t.Context(), castStep(t, seed), o)
			if err != nil {
				t.Fatalf("%d: %+v: %v", seed, o.Limit, err)
			}
			if len(r.GivenUp) > 0 {
				t.Errorf("%d: %+v: given up: %v", seed, o.Limit, r.GivenUp)
			}
			return r.Plan
		}
		free := solve(passes.Options{})
		x := &free.Summary
		if x.Limited == nil || tried == 8 {
			continue
		}
		tried++
		for _, effort := range []schedule.Effort{schedule.EffortFast, schedule.EffortDefault} {
			for _, limit := range []passes.Limit{{Percent: 100}, {Bytes: x.PeakBytes}} {
				y := &solve(passes.Options{Limit: &limit, Effort: effort}).Summary
				if y.LimitBytes != x.PeakBytes || y.RecastPeakBytes != x.PeakBytes || y.PlainPeakBytes != x.PlainPeakBytes || y.ExtraCostPercent > x.ExtraCostPercent {
					t.Errorf("%d: limit %+v: %+v: expected no more than %+v", seed, limit, y.Limited, x.Limited)
				}
			}
		}
		p := solve(passes.Options{Frontier: true})
		if p.Summary.PeakBytes != x.PeakBytes || p.Summary.Limited == nil || !p.Summary.Recast {
			t.Errorf("%d: with the frontier, the plan has a peak of %d: expected %d, by casts that run again", seed, p.Summary.PeakBytes, x.PeakBytes)
		}
		at := slices.IndexFunc(p.Frontier, func(f plan.FrontierPoint) bool { return f.LimitBytes == x.PeakBytes })
		if at < 0 || p.Frontier[at].ExtraCostPercent == nil || *p.Frontier[at].ExtraCostPercent > x.ExtraCostPercent {
			t.Errorf("%d: the frontier lacks a plan of %d bytes for %.2f %%: %+v", seed, x.PeakBytes, x.ExtraCostPercent, p.Frontier)
		}
		for i := 1; i < len(p.Frontier); i++ {
			a, b := p.Frontier[i-1], p.Frontier[i]
			if a.LimitBytes <= b.LimitBytes || b.ExtraCostPercent != nil && (a.ExtraCostPercent == nil || *a.ExtraCostPercent > *b.ExtraCostPercent) {
				t.Errorf("%d: a limit of %d bytes costs more than one of %d", seed, a.LimitBytes, b.LimitBytes)
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d graphs in which casts run again: expected 8", tried)
	}
}

// TestRecastLeftOut: without the pass recast, and where nothing may run again, limits in per cent are of
// the peak of the best order.
func TestRecastLeftOut(t *testing.T) {
	var m *graph.Model
	for seed := uint64(0); ; seed++ {
		m = castStep(t, seed)
		if r, err := passes.Optimize(t.Context(), castStep(t, seed), passes.Options{}); err != nil {
			t.Fatal(err)
		} else if r.Plan.Summary.Limited != nil {
			break
		}
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Limit: &passes.Limit{Percent: 100}, Disable: []string{"recast"}})
	if err != nil {
		t.Fatal(err)
	}
	if x := &r.Plan.Summary; x.RecastPeakBytes != 0 || x.LimitBytes != x.PlainPeakBytes {
		t.Errorf("%+v: expected a limit of the plain peak", x.Limited)
	}
}
