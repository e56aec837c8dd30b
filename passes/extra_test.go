package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/passes"
)

// TestExtraIsKept: a plan within some extra time takes no more, though views run again with what they
// view. Of the plans that the search knows, those of the smallest peaks within the time took 22.5
// instead of 20 % in network 193, 21.7 in network 76, and 3.02 instead of 3 % in network 20.
func TestExtraIsKept(t *testing.T) {
	for _, c := range []struct {
		seed  uint64
		nodes int
		extra float64
		opt   passes.Options
	}{
		{193, 43, 20, passes.Options{Device: slowDevice}},
		{193, 43, 20, passes.Options{Device: slowDevice, Host: &passes.Host{Link: 1e8}}},
		{193, 43, 20, passes.Options{Device: slowDevice, Aliases: passes.AliasesOn}},
		{76, 46, 20, passes.Options{Aliases: passes.AliasesOff}},
		{20, 30, 3, passes.Options{Device: slowDevice, Aliases: passes.AliasesOff}},
		{376, 26, 20, passes.Options{Device: slowDevice, Aliases: passes.AliasesOff}},
	} {
		c.opt.ExtraPercent = c.extra
		r, err := passes.Optimize(t.Context(), randmodel.Joins(c.seed, c.nodes), c.opt)
		if err != nil || len(r.GivenUp) > 0 {
			t.Fatal(err, r.GivenUp)
		}
		x := &r.Plan.Summary
		if x.Extra() > c.extra || c.seed == 193 && x.PeakBytes > 1024 {
			t.Errorf("network %d: %v %% more time, a peak of %d bytes: expected at most %v %%, and at most 1024", c.seed, x.Extra(), x.PeakBytes, c.extra)
		}
	}
}
