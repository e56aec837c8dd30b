package passes_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestRangePools: beside ranges, each buffer has one pool, and each pool is stacked by itself. At
// every point, the pools keep their capacities, and nodes move what they do there.
func TestRangePools(t *testing.T) {
	ranges := map[string]string{"batch": "1..4"}
	plain, err := planRange(rangeModel(t, "tiny_resnet8", nil), ranges, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	peak := plain.Summary.PeakBytes
	pools := []passes.Pool{{Name: "fast", Capacity: peak / 2}, {Name: "slow", Capacity: peak, BytesPerSecond: 1e8}}
	m := rangeModel(t, "tiny_resnet8", nil)
	p, err := planRange(m, ranges, passes.Options{Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	tiers := p.Tiers()
	if len(tiers) != 2 || tiers[0].Bytes == 0 || tiers[1].Bytes == 0 || tiers[0].Bytes+tiers[1].Bytes != p.Summary.ArenaBytes {
		t.Fatalf("expected two pools in use, found %+v, %+v", p.Pools, p.Summary)
	}
	for _, row := range p.Ranges.Table {
		at, err := passes.PlanAt(m, p, row.Dims)
		if err != nil {
			t.Fatal(err)
		}
		if err := at.Check(); err != nil {
			t.Fatal(err)
		}
		if at.Summary.ArenaBytes != row.ArenaBytes || at.Summary.PeakBytes != row.PeakBytes {
			t.Errorf("%v: %+v, expected %+v", row.Dims, at.Summary, row)
		}
		batch := row.Dims["batch"]
		for i, x := range at.Tiers() {
			y := &tiers[i]
			if x.Bytes > x.Capacity || 4*x.Bytes != batch*y.Bytes || 4*x.ReadBytes != batch*y.ReadBytes || 4*x.WrittenBytes != batch*y.WrittenBytes {
				t.Errorf("%v: pool %+v, %+v, with the largest batch %+v, %+v", row.Dims, x, x.Tier, y, y.Tier)
			}
		}
		if x, y := at.Summary.Tiered, p.Summary.Tiered; 4*x.SlowTrafficBytes != batch*y.SlowTrafficBytes || x.SlowTrafficBoundBytes > x.SlowTrafficBytes || batch == 4 && *x != *y {
			t.Errorf("%v: traffic %+v, with the largest batch %+v", row.Dims, x, y)
		}
		alone, err := p.At(row.Dims, nil)
		if err != nil {
			t.Fatal(err)
		}
		if alone.Summary.Tiered != nil || alone.Summary.ArenaBytes != row.ArenaBytes {
			t.Errorf("%v: from the plan alone %+v", row.Dims, alone.Summary)
		}
	}
	pools[1].Capacity = peak / 4
	var full *passes.PoolError
	if _, err := planRange(rangeModel(t, "tiny_resnet8", nil), ranges, passes.Options{Pools: pools}); !errors.As(err, &full) || full.Load != peak {
		t.Errorf("pools that are too small for the largest lengths: %v", err)
	}
}

// TestRangePoolsRun: a training step runs in its pools with the bits of one arena, at several points
// in one session, below a limit on all pools together, too.
func TestRangePoolsRun(t *testing.T) {
	source := longOf(t, "batch")
	made := func(opt passes.Options) ([]byte, *plan.Plan) {
		opt.Train, opt.Effort, opt.Ranges = &autodiff.Options{}, schedule.EffortFast, map[string]string{"batch": "1..2"}
		return accepted(t, source, opt)
	}
	b, plain := made(passes.Options{})
	want := atPoints(t, b, plain, 2, 1, 2)
	peak := plain.Summary.PeakBytes
	pools := []passes.Pool{{Name: "fast", Capacity: peak / 2}, {Name: "slow", Capacity: 4 * peak}}
	for _, limit := range []*passes.Limit{nil, {Bytes: peak, Arena: true}, {Percent: 80}} {
		b, p := made(passes.Options{Pools: pools, Limit: limit})
		if len(p.Tiers()) != 2 || limit != nil && limit.Arena && p.Summary.ArenaBytes > peak {
			t.Errorf("limit %+v: found %+v", limit, p.Summary)
		}
		if got := atPoints(t, b, p, 2, 1, 2); !reflect.DeepEqual(got, want) {
			t.Errorf("limit %+v: other results than in one arena", limit)
		}
	}
}
