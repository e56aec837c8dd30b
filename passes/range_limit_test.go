package passes_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// TestRangeLimits: beside ranges, a limit holds at the largest lengths and so at all. Each
// plan is verified with its source.
func TestRangeLimits(t *testing.T) {
	ranges := map[string]string{"batch": "2..4"}
	train := func(opt passes.Options) passes.Options {
		opt.Train, opt.Effort = &autodiff.Options{}, schedule.EffortFast
		return opt
	}
	plain, err := planRange(rangeModel(t, "tiny_resnet8", nil), ranges, train(passes.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opt  passes.Options
	}{
		{"limit", passes.Options{Limit: &passes.Limit{Percent: 80}}},
		{"limit on the arena", passes.Options{Limit: &passes.Limit{Percent: 80, Arena: true}}},
		{"extra", passes.Options{ExtraPercent: 20}},
		{"aliases", passes.Options{Limit: &passes.Limit{Percent: 80}, Aliases: passes.AliasesOn}},
		{"strategy", passes.Options{Limit: &passes.Limit{Percent: 80}, Schedule: "program"}},
		{"updates last", passes.Options{Limit: &passes.Limit{Percent: 95}, UpdatesLast: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := planRange(rangeModel(t, "tiny_resnet8", nil), ranges, train(c.opt))
			if err != nil {
				t.Fatal(err)
			}
			l := p.Summary.Limited
			if l == nil || p.Summary.PeakBytes > l.LimitBytes || c.opt.Limit != nil && c.opt.Limit.Arena && p.Summary.ArenaBytes > l.LimitBytes {
				t.Fatalf("expected a plan within a limit, found %+v, %+v", p.Summary, l)
			}
			if c.name != "strategy" && p.Summary.PeakBytes >= plain.Summary.PeakBytes {
				t.Errorf("peak %d, without a limit %d: expected less", p.Summary.PeakBytes, plain.Summary.PeakBytes)
			}
			if l.RecomputedNodes == 0 {
				t.Error("expected nodes that run again")
			}
			if c.opt.ExtraPercent > 0 && p.Summary.Extra() > c.opt.ExtraPercent {
				t.Errorf("%v %% more time: expected at most %v", p.Summary.Extra(), c.opt.ExtraPercent)
			}
			for _, row := range p.Ranges.Table {
				if row.PeakBytes > l.LimitBytes {
					t.Errorf("%v: peak %d: expected at most the limit, %d", row.Dims, row.PeakBytes, l.LimitBytes)
				}
				at, err := p.At(row.Dims, nil)
				if err != nil {
					t.Fatal(err)
				}
				if at.Summary.PeakBytes != row.PeakBytes || at.Summary.ArenaBytes != row.ArenaBytes {
					t.Errorf("%v: expected peak %d, arena %d, found %+v", row.Dims, row.PeakBytes, row.ArenaBytes, at.Summary)
				}
			}
		})
	}
}

// TestRangeSwaps: tensors are swapped out at all points, to the places of the largest lengths,
// and runs give the bits of the plan without a limit. With the sizes of a point, the copies in
// host memory have those.
func TestRangeSwaps(t *testing.T) {
	b := longOf(t, "batch")
	opt := passes.Options{Train: &autodiff.Options{}, Effort: schedule.EffortFast, Ranges: map[string]string{"batch": "1..2"}}
	unlimited, plain := accepted(t, b, opt)
	opt.Limit, opt.Host = &passes.Limit{Percent: 60}, &passes.Host{Link: 40e9}
	planned, p := accepted(t, b, opt)
	if l := p.Summary.Limited; l.SwappedBuffers == 0 || l.RecomputedNodes == 0 || p.Summary.PeakBytes > l.LimitBytes || p.Summary.PeakBytes > plain.Summary.PeakBytes*6/10 {
		t.Fatalf("expected swaps and nodes that run again within the limit, found %+v", *l)
	}
	runs := atPoints(t, planned, p, 2, 1, 2)
	for i, want := range atPoints(t, unlimited, plain, 2, 1, 2) {
		if got := runs[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("run %d: expected the results of the plan without a limit, found %v", i, got)
		}
	}
	m, err := onnx.Parse("planned.onnx", planned)
	if err != nil {
		t.Fatal(err)
	}
	at, err := passes.PlanAt(m, p, map[string]int64{"batch": 1})
	if err != nil {
		t.Fatal(err)
	}
	swapped := int64(0)
	for i := range at.Buffers {
		b, corner := &at.Buffers[i], &p.Buffers[i]
		if b.Pool != plan.Host {
			continue
		}
		if swapped += b.Bytes; b.Offset != corner.Offset || 2*b.Bytes != corner.Bytes {
			t.Errorf("buffer %d: %d bytes at %d, at twice the batch %d at %d", i, b.Bytes, b.Offset, corner.Bytes, corner.Offset)
		}
	}
	if l := at.Summary.Limited; l.SwappedBytes != swapped || 2*swapped != p.Summary.SwappedBytes {
		t.Errorf("%d bytes are swapped out, expected %d", l.SwappedBytes, swapped)
	}
}

// atPoints runs a plan in one session with some batches, each from the same values of its inputs and
// states on.
func atPoints(t *testing.T, b []byte, p *plan.Plan, batches ...int64) (list []map[string]vm.Value) {
	t.Helper()
	m, err := onnx.Parse("planned.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	program, err := vm.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	s, err := program.NewSession(vm.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, batch := range batches {
		at, err := program.At(map[string]int64{"batch": batch})
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]vm.Value{}
		for i, x := range append(at.Inputs(), at.States()...) {
			if values[x.Name], err = vm.Random(x, uint64(i)); err != nil {
				t.Fatal(err)
			}
			if x.Name == "labels" {
				clear(values[x.Name].Data)
			}
		}
		out, err := s.Run(t.Context(), values)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range out {
			out[name] = v.Clone()
		}
		if list = append(list, out); slices.ContainsFunc(p.Pools, func(x plan.Pool) bool { return x.Name == plan.Host }) && s.Memory().HostBytes == 0 {
			t.Error("the session has no host pool")
		}
		at.Close()
	}
	return list
}

// TestRangeDefaultOrder: one listing of the nodes gives one default order of the runtime at all
// points, and it needs no more than the bound there.
func TestRangeDefaultOrder(t *testing.T) {
	p, err := planRange(rangeModel(t, "resnet18", nil), map[string]string{"batch": "1..4"}, passes.Options{Runtime: ops.ONNXRuntime, RuntimeOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	if p.Traversal == nil || p.Traversal.BestPeakBytes != p.Summary.PeakBytes || p.Ranges.OptimalPoints != 4 {
		t.Errorf("expected the default order with the bound at 4 points, found %+v, %d points", p.Traversal, p.Ranges.OptimalPoints)
	}
	at, err := p.At(map[string]int64{"batch": 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if at.Traversal.BestPeakBytes > at.Summary.PeakBytes || p.Traversal.BestPeakBytes != p.Summary.PeakBytes {
		t.Errorf("at batch 2, the best peak is %d of %d", at.Traversal.BestPeakBytes, at.Summary.PeakBytes)
	}
}

// TestRangeTimeLimit: a time limit ends the searches, and all points are proven all the same.
func TestRangeTimeLimit(t *testing.T) {
	p, err := planRange(rangeModel(t, "resnet18", nil), map[string]string{"batch": "1..4"}, passes.Options{TimeLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Ranges; r.Inferred != 4 || r.Worst.LowerBoundBytes <= 0 || p.Summary.LowerBoundBytes < r.Table[len(r.Table)-1].LowerBoundBytes {
		t.Errorf("expected 4 points with their bounds, found %+v, and the bound %d", r, p.Summary.LowerBoundBytes)
	}
}
