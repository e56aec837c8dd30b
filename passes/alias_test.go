package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/passes"
)

// TestAliasesOfRandomModels: plans with aliases are valid and never worse than plans
// without, and no plan without has a peak below their bound.
func TestAliasesOfRandomModels(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 30
	}
	used, smaller := 0, 0
	for seed := range seeds {
		b := file(t, randmodel.Joins(seed, 3+int(seed%18)))
		for _, opt := range []passes.Options{{}, {NoInplace: true}, {NoViews: true, Align: 4}, {Schedule: "program"}} {
			_, plain := accepted(t, b, opt)
			opt.Aliases = true
			_, p := accepted(t, b, opt)
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
			opt := passes.Options{Ranges: map[string]string{"width": widths}, NoInplace: seed%3 == 1, NoViews: seed%3 == 2}
			_, plain := accepted(t, b, opt)
			opt.Aliases = true
			_, p := accepted(t, b, opt)
			for i, row := range p.Ranges.Table {
				before := plain.Ranges.Table[i]
				if row.ArenaBytes > before.ArenaBytes {
					t.Errorf("seed %d, %v: arena %d; without aliases %d", seed, row.Dims, row.ArenaBytes, before.ArenaBytes)
				}
				if row.ArenaBytes < before.ArenaBytes {
					smaller++
				}
				alone := passes.Options{Dims: row.Dims, NoInplace: opt.NoInplace, NoViews: opt.NoViews, Aliases: p.Sharing.Aliases}
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
