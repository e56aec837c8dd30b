package passes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestAliasesOfRandomModels: plans with aliases are valid and never worse than plans
// without, and no plan without has a peak below their bound.
func TestAliasesOfRandomModels(t *testing.T) {
	seeds := uint64(40)
	if sweep.On() {
		seeds = 150
	}
	used, smaller := 0, 0
	for seed := range seeds {
		b := file(t, randmodel.Joins(seed, 3+int(seed%18)))
		for _, opt := range []passes.Options{{}, {NoInplace: true}, {NoViews: true, Align: 4}, {Schedule: "program"}} {
			opt.Aliases = passes.AliasesOff
			_, plain := accepted(t, b, opt)
			opt.Aliases = passes.AliasesOn
			out, p := accepted(t, b, opt)
			explained(t, out, p)
			s, before := &p.Summary, &plain.Summary
			if s.PeakBytes > before.PeakBytes || s.ArenaBytes > before.ArenaBytes {
				t.Errorf("seed %d, %+v: peak %d, arena %d; without aliases %d and %d", seed, opt, s.PeakBytes, s.ArenaBytes, before.PeakBytes, before.ArenaBytes)
			}
			if s.LowerBoundBytes > before.PeakBytes {
				t.Errorf("seed %d, %+v: bound %d; a plan without aliases has the peak %d", seed, opt, s.LowerBoundBytes, before.PeakBytes)
			}
			if p.Sharing.Aliases {
				used++
			}
			if s.PeakBytes < before.PeakBytes {
				smaller++
			}
			if t.Failed() {
				t.Fatalf("seed %d, %+v", seed, opt)
			}
		}
	}
	t.Logf("%d plans with aliases, %d of them with a smaller peak", used, smaller)
	if used < int(seeds)/4 || smaller < int(seeds)/20 {
		t.Errorf("%d plans with aliases, %d of them with a smaller peak: nothing is tested", used, smaller)
	}
}

// explained checks that a planned model can be explained, as the plan has it.
func explained(t *testing.T, b []byte, p *plan.Plan) {
	t.Helper()
	m, err := onnx.Parse("out.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	x, err := passes.Explain(t.Context(), m, p, schedule.ExplainOptions{})
	switch {
	case err != nil:
		t.Error(err)
	case x.Peak != p.Summary.PeakBytes || x.Bound != p.Summary.LowerBoundBytes:
		t.Errorf("explanation of peak %d and bound %d, expected %d and %d", x.Peak, x.Bound, p.Summary.PeakBytes, p.Summary.LowerBoundBytes)
	}
}

// TestAliasesByDefault: without an option, plans have aliases where these make them better.
// Plans for runtimes that copy have none, and a comparison of the orders, which have none,
// says what they would save.
func TestAliasesByDefault(t *testing.T) {
	smaller := 0
	for seed := range uint64(12) {
		b := file(t, randmodel.Joins(seed, 6))
		_, p := accepted(t, b, passes.Options{})
		_, on := accepted(t, b, passes.Options{Aliases: passes.AliasesOn})
		_, off := accepted(t, b, passes.Options{Aliases: passes.AliasesOff})
		if p.Sharing != on.Sharing || p.Summary != on.Summary {
			t.Errorf("seed %d: by default %+v %+v; with AliasesOn %+v %+v", seed, p.Sharing, p.Summary, on.Sharing, on.Summary)
		}
		m, err := onnx.Parse("model", b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := passes.Compare(t.Context(), m, passes.CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.HasPrefix(w, "aliases: ") })
		if p.Summary.PeakBytes < off.Summary.LowerBoundBytes {
			if smaller++; !said {
				t.Errorf("seed %d: the comparison does not say that aliases make the peak smaller", seed)
			}
		}
		for _, opt := range []passes.Options{{Runtime: ops.ONNXRuntime}, {NoViews: true}, {Limit: &passes.Limit{Percent: 100}}, {Pools: []passes.Pool{{Name: "fast", Capacity: 1 << 30}, {Name: "slow", Capacity: 1 << 30, BytesPerSecond: 1 << 20}}}} {
			if _, p := accepted(t, b, opt); p.Sharing.Aliases || len(p.Spans) > 0 {
				t.Errorf("seed %d, %+v: aliases, expected none", seed, opt)
			}
			if opt.NoViews {
				continue
			}
			opt.Aliases = passes.AliasesOn
			if opt.Limit != nil { // nothing runs again
				if _, q := accepted(t, b, opt); q.Summary.PeakBytes != on.Summary.PeakBytes || q.Sharing != on.Sharing {
					t.Errorf("seed %d, %+v: a peak of %d, expected %d", seed, opt, q.Summary.PeakBytes, on.Summary.PeakBytes)
				}
				continue
			}
			if err := opt.Validate(); err == nil || !strings.Contains(err.Error(), "Aliases: AliasesOn") {
				t.Errorf("%+v: expected an error about aliases, found %v", opt, err)
			}
		}
	}
	if smaller == 0 {
		t.Error("no plan has a smaller peak with aliases: nothing is tested")
	}
}

// TestAliasesFirst: what aliases alone reach takes no time, by default, too: limits from there on,
// the smallest peak within some time, and the points of a frontier, with slices and without.
func TestAliasesFirst(t *testing.T) {
	smaller := 0
	for seed := range uint64(12) {
		b := file(t, randmodel.Joins(seed, 6))
		_, on := accepted(t, b, passes.Options{})
		_, off := accepted(t, b, passes.Options{Aliases: passes.AliasesOff})
		peak := on.Summary.PeakBytes
		if peak == off.Summary.PeakBytes {
			continue
		}
		smaller++
		for _, slices := range []passes.Slices{passes.SlicesOff, passes.SlicesExact} {
			for _, aliases := range []passes.Aliases{passes.AliasesAuto, passes.AliasesOn} {
				o := passes.Options{Slices: slices, Aliases: aliases}
				limit, extra, frontier := o, o, o
				limit.Limit, extra.ExtraPercent, frontier.Frontier = &passes.Limit{Bytes: peak}, 5, true
				if _, p := accepted(t, b, limit); p.Summary.Extra() > 0 || p.Summary.PeakBytes > peak {
					t.Errorf("seed %d, %+v: a peak of %d takes %v %% more time, expected at most %d and none", seed, limit, p.Summary.PeakBytes, p.Summary.Extra(), peak)
				}
				if _, p := accepted(t, b, extra); p.Summary.PeakBytes > peak {
					t.Errorf("seed %d, %+v: a peak of %d, and of %d without more time", seed, extra, p.Summary.PeakBytes, peak)
				}
				_, p := accepted(t, b, frontier)
				if p.Summary.PeakBytes != peak || len(p.Frontier) == 0 {
					t.Errorf("seed %d, %+v: a peak of %d, a frontier of %d points: expected %d, and some", seed, frontier, p.Summary.PeakBytes, len(p.Frontier), peak)
				}
				for _, x := range p.Frontier {
					if x.LimitBytes >= peak && (x.ExtraCostPercent == nil || *x.ExtraCostPercent > 0) {
						t.Errorf("seed %d, %+v: a cost of a limit of %d: the plan has a peak of %d", seed, frontier, x.LimitBytes, peak)
					}
				}
			}
		}
	}
	if smaller == 0 {
		t.Error("no plan has a smaller peak with aliases: nothing is tested")
	}
}

// TestAliasesOfRandomRanges: plans for ranges with aliases are valid at every point, nowhere
// larger than without, and no plan of one point has a peak below the bound of that point.
func TestAliasesOfRandomRanges(t *testing.T) {
	seeds := uint64(24)
	if testing.Short() {
		seeds = 10
	}
	used, smaller := 0, 0
	for seed := range seeds {
		m := randmodel.Joins(seed, 3+int(seed%18))
		for _, list := range [][]graph.TensorID{m.Graph.Inputs, m.Graph.Outputs} {
			for _, id := range list {
				d := m.Graph.Tensors[id].Declared
				d.Type.Shape[2], d.Symbols = graph.Unknown, []string{"", "", "width"}
			}
		}
		b := file(t, m)
		for _, widths := range []string{"16,32,64", "3,5,16,24"} {
			opt := passes.Options{Ranges: map[string]string{"width": widths}, NoInplace: seed%3 == 1, NoViews: seed%3 == 2, Aliases: passes.AliasesOff}
			_, plain := accepted(t, b, opt)
			opt.Aliases = passes.AliasesOn
			_, p := accepted(t, b, opt)
			for i, row := range p.Ranges.Table {
				before := plain.Ranges.Table[i]
				if row.ArenaBytes > before.ArenaBytes {
					t.Errorf("seed %d, %v: arena %d; without aliases %d", seed, row.Dims, row.ArenaBytes, before.ArenaBytes)
				}
				if row.ArenaBytes < before.ArenaBytes {
					smaller++
				}
				alone := passes.Options{Dims: row.Dims, NoInplace: opt.NoInplace, NoViews: opt.NoViews, Aliases: passes.AliasesOff}
				if p.Sharing.Aliases {
					alone.Aliases = passes.AliasesOn
				}
				if _, q := accepted(t, b, alone); q.Summary.PeakBytes < row.LowerBoundBytes {
					t.Errorf("seed %d, %v: bound %d; a plan of that point has the peak %d", seed, row.Dims, row.LowerBoundBytes, q.Summary.PeakBytes)
				}
			}
			if p.Sharing.Aliases {
				used++
			}
			if t.Failed() {
				t.Fatalf("seed %d, %+v", seed, opt)
			}
		}
	}
	t.Logf("%d plans with aliases, %d points with a smaller arena", used, smaller)
	if used < int(seeds)/4 || smaller < int(seeds)/20 {
		t.Errorf("%d plans with aliases, %d points with a smaller arena: nothing is tested", used, smaller)
	}
}
