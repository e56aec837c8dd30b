package passes_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// slowDevice takes longer for the bytes of small networks than to launch their nodes.
var slowDevice = passes.Device{FLOPS: 1e8, Bandwidth: 1e8}

// smallViT is a network whose regions can run in slices.
func smallViT(t testing.TB) []byte {
	return network(t, "vit_b_16", map[string]int64{"batch": 2}, map[string]string{"size": "64", "patch": "8", "classes": "10", "layers": "2", "hidden": "32", "heads": "4", "ff": "128"})
}

// smallBERT is a network whose training step can run in slices of the batch.
func smallBERT(t testing.TB) []byte {
	return network(t, "bert", map[string]int64{"batch": 4, "sequence": 16}, map[string]string{"vocab": "50", "positions": "16", "layers": "1", "hidden": "16", "heads": "2", "ff": "32"})
}

// TestLimitWithSlices: plans with slices, below limits that no order meets, are valid and
// give the same bits as the plan without a limit, whether or not nodes run again.
func TestLimitWithSlices(t *testing.T) {
	for _, c := range []struct {
		name    string
		file    []byte
		percent []float64
	}{
		{"vit", smallViT(t), []float64{80, 60}},
		{"mobilenet_v2", network(t, "mobilenet_v2", map[string]int64{"batch": 2}, map[string]string{"width": "0.25", "size": "32", "classes": "10"}), []float64{50, 34}},
		{"skip connections", unetLike(t), []float64{75, 65}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, plain := accepted(t, c.file, passes.Options{})
			want := results(t, b, plain)
			for _, percent := range c.percent {
				b, p := accepted(t, c.file, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: percent}, Device: slowDevice})
				s := p.Summary
				if p.Slices == nil && s.RecomputedNodes == 0 || float64(s.PeakBytes) > percent/100*float64(plain.Summary.PeakBytes) {
					t.Fatalf("%v %%: peak %d of %d: expected slices or recomputation, and a peak within the limit", percent, s.PeakBytes, plain.Summary.PeakBytes)
				}
				if p.Slices != nil && s.UnslicedPeakBytes != plain.Summary.PeakBytes {
					t.Errorf("%v %%: without slices, the peak is said to be %d: expected %d", percent, s.UnslicedPeakBytes, plain.Summary.PeakBytes)
				}
				same(t, results(t, b, p), want)
			}
		})
	}
}

// TestSlicesAndRecomputation: a limit that neither slices nor recomputation meets alone is
// met by both, and the cost of both is reported together.
func TestSlicesAndRecomputation(t *testing.T) {
	sweep.Only(t)
	file, limit := smallBERT(t), &passes.Limit{Percent: 35}
	opt := passes.Options{Train: &autodiff.Options{}, Effort: schedule.EffortFast, Device: slowDevice, Limit: limit}
	m, err := onnx.Parse("in.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	var none *passes.LimitError
	if _, err := passes.Optimize(t.Context(), m, opt); !errors.As(err, &none) {
		t.Fatalf("recomputation alone: %v: expected a limit that it cannot meet", err)
	}
	opt.Slices = passes.SlicesAny
	b, p := accepted(t, file, opt)
	s := p.Summary
	if p.Slices == nil || s.RecomputedNodes == 0 || s.PeakBytes > s.LimitBytes {
		t.Fatalf("%d nodes run again, peak %d, limit %d: expected slices and recomputation", s.RecomputedNodes, s.PeakBytes, s.LimitBytes)
	}
	if want := plan.Together(s.SliceCostPercent, s.ExtraCostPercent); s.SliceCostPercent <= 0 || s.ExtraCostPercent <= 0 || s.TotalCostPercent != want || s.Extra() != want {
		t.Errorf("slices %v %%, recomputation %v %%, together %v %%: expected %v %%", s.SliceCostPercent, s.ExtraCostPercent, s.TotalCostPercent, want)
	}
	results(t, b, p) // compares with an unplanned run
}

// TestSliceLimitsAreMonotone: a larger limit costs no more, but for the half percent that is
// not worth a search. The frontier is no dearer than the plans. No plan is below the bounds,
// and none with the same regions is below a bound for any number of slices.
func TestSliceLimitsAreMonotone(t *testing.T) {
	for name, file := range map[string][]byte{"vit": smallViT(t), "skip connections": unetLike(t)} {
		t.Run(name, func(t *testing.T) {
			opt := passes.Options{Slices: passes.SlicesExact, Device: slowDevice, Frontier: true}
			_, p := accepted(t, file, opt)
			least, found := 0.0, 0
			var slowest float64
			regions := map[string][]plan.Summary{}
			for i, x := range p.Frontier {
				if x.Impossible {
					continue
				}
				opt.Frontier, opt.Limit = false, &passes.Limit{Bytes: x.LimitBytes}
				m, err := onnx.Parse("in.onnx", file)
				if err != nil {
					t.Fatal(err)
				}
				r, err := passes.Optimize(t.Context(), m, opt)
				if (err != nil) != (x.ExtraCostPercent == nil) {
					t.Fatalf("point %d, limit %d: %v, and the frontier has %v", i, x.LimitBytes, err, x.ExtraCostPercent)
				}
				if err != nil {
					continue
				}
				found++
				s := r.Plan.Summary
				extra := max(s.Extra(), 0)
				if s.PeakBytes > x.LimitBytes || *x.ExtraCostPercent > extra*(1+1e-9) || extra > max(*x.ExtraCostPercent, 0.5)*(1+1e-9) {
					t.Errorf("limit %d: peak %d at %v %%, and the frontier has %v %%", x.LimitBytes, s.PeakBytes, extra, *x.ExtraCostPercent)
				}
				if slowest = max(slowest, extra); extra < least*(1-1e-9) && least > 0.5 {
					t.Errorf("limit %d costs %v %%, a larger one %v %%", x.LimitBytes, extra, least)
				}
				least = max(least, extra)
				if r.Plan.Slices != nil {
					if s.PeakBytes < s.AnySlicesBoundBytes || s.RecomputedNodes == 0 && s.PeakBytes < s.AnyCountBoundBytes {
						t.Errorf("limit %d: peak %d is below the bounds %d and %d", x.LimitBytes, s.PeakBytes, s.AnySlicesBoundBytes, s.AnyCountBoundBytes)
					}
					key := ""
					for _, region := range r.Plan.Slices.Regions {
						key += fmt.Sprintln(strings.Join(region.Nodes, " "))
					}
					if s.RecomputedNodes == 0 {
						regions[key] = append(regions[key], s)
					}
				}
			}
			if found < 5 || math.IsInf(slowest, 0) {
				t.Errorf("%d limits have plans: expected more", found)
			}
			for key, list := range regions {
				for _, a := range list {
					for _, b := range list {
						if a.PeakBytes < b.AnyCountBoundBytes {
							t.Errorf("regions %.80q: a peak of %d is below the bound of %d for any number of slices", key, a.PeakBytes, b.AnyCountBoundBytes)
						}
					}
				}
			}
		})
	}
}

// TestLimitBelowAllSlices: the error says which bound stands in the way, and what it
// consists of.
func TestLimitBelowAllSlices(t *testing.T) {
	file := smallViT(t)
	for _, c := range []struct {
		percent    float64
		impossible bool
		text       string
	}{
		{20, true, `impossible: whatever runs in slices, the graph's inputs take 96.00 KiB (98,304 B) at the first step, for "image"`},
		{50, false, `in slices alone 112.00 KiB (114,688 B): without recomputation, these regions need at least 112.00 KiB (114,688 B) in any number of slices, for "image", "patches": the lowest limit with a plan is 112.00 KiB (114,688 B)`},
	} {
		m, err := onnx.Parse("in.onnx", file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = passes.Optimize(t.Context(), m, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: c.percent}, Device: slowDevice})
		var e *passes.LimitError
		if !errors.As(err, &e) || e.Impossible != c.impossible || e.Slices == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v %%: %v: expected %s", c.percent, err, c.text)
			continue
		}
		if m, err = onnx.Parse("in.onnx", file); err != nil {
			t.Fatal(err)
		}
		if e.LowestBytes > 0 {
			if _, err := passes.Optimize(t.Context(), m, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Bytes: e.LowestBytes}, Device: slowDevice}); err != nil {
				t.Errorf("the lowest limit with a plan: %v", err)
			}
		}
	}
}

// TestExtraTime: without a limit, the peak is the smallest that the extra time allows, by
// slices, by recomputation, or by both.
func TestExtraTime(t *testing.T) {
	file := smallViT(t)
	peak := func(mode passes.Slices, percent float64) int64 {
		_, p := accepted(t, file, passes.Options{Slices: mode, ExtraPercent: percent, Device: slowDevice})
		if extra := p.Summary.Extra(); extra > percent {
			t.Errorf("mode %v: %v %% more time: expected at most %v %%", mode, extra, percent)
		}
		return p.Summary.PeakBytes
	}
	_, plain := accepted(t, file, passes.Options{})
	recomputed, sliced := peak(passes.SlicesOff, 5), peak(passes.SlicesExact, 5)
	if !(sliced < recomputed && recomputed < plain.Summary.PeakBytes) {
		t.Errorf("peaks %d in slices, %d with recomputation, %d without: expected them to rise", sliced, recomputed, plain.Summary.PeakBytes)
	}
	if less := peak(passes.SlicesExact, 0.1); less < sliced {
		t.Errorf("less time has a smaller peak: %d, not %d", less, sliced)
	}
}

// TestMeasuredCostsOfSlices: costs that were measured hold for slices, too. If every node
// takes a hundred times what the device's model says, the same slices cost the same share
// of the time; if one kind of node takes much longer, slices of it cost more.
func TestMeasuredCostsOfSlices(t *testing.T) {
	file := smallViT(t)
	opt := passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 70}, Device: slowDevice}
	_, estimated := accepted(t, file, opt)
	if estimated.Slices == nil || estimated.Summary.RecomputedNodes > 0 {
		t.Fatal("expected slices alone")
	}
	// The costs of nodes without a limit stand in the plan of one that changes nothing.
	_, plain := accepted(t, file, passes.Options{Limit: &passes.Limit{Percent: 100}, Device: slowDevice})
	if plain.Steps[0].CostNS == 0 {
		t.Fatal("expected costs in the plan below a limit")
	}
	opt.Costs = map[string]int64{}
	for _, x := range plain.Steps {
		if x.CostNS > 0 {
			opt.Costs[x.Name] = 100 * x.CostNS
		}
	}
	_, measured := accepted(t, file, opt)
	if got, want := measured.Summary.SliceCostPercent, estimated.Summary.SliceCostPercent; math.Abs(got-want) > 0.05*(1+want) {
		t.Errorf("slices cost %v %% by measured costs: expected %v %%, as by estimate, of which they are multiples", got, want)
	}
	if !reflect.DeepEqual(measured.Slices.Regions, estimated.Slices.Regions) {
		t.Error("expected the slices that the estimates choose")
	}
}
