package passes_test

import (
	"testing"

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
